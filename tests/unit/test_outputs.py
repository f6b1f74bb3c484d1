"""Results are taken apart into parts with places, whatever tree they are, and sketches say how far two of them are apart."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import decimal
import math
import re
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet import Workload
from ratchet.core.bench.child import outputs
from ratchet.core.bench.child.correctness import WrongResult, evidence
from ratchet.core.bench.child.outputs import MOST_PARTS, Value, parts, sketch
from ratchet.core.bench.messages import evidence_difference

pytestmark = pytest.mark.no_cover

ONE = torch.ones(2)


@dataclasses.dataclass
class State:
    mean: torch.Tensor
    more: dict[str, Any]


class Named(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor | None


@pytest.mark.parametrize(
    ("tree", "places"),
    [
        (ONE, ["the output"]),
        ((ONE,), ["the output"]),
        ([[ONE]], ["the output"]),
        ((ONE, None), ["output [0]", "output [1]"]),
        ({"loss": ONE, "more": [ONE, (ONE, ONE)]}, ["output ['loss']", "output ['more'][0]", "output ['more'][1][0]",
                                                    "output ['more'][1][1]"]),
        (State(ONE, {"x": 1.5}), ["output .mean", "output .more['x']"]),
        (Named(ONE, None), ["output [0]", "output [1]"]),
        (collections.OrderedDict(a=ONE, b=()), ["output ['a']", "output ['b']"]),
        (torch.nn.Linear(2, 1), ["output .weight", "output .bias"]),
        ([0.5] * 1000, ["the output"]),
        (["text"] * 1000, ["the output"]),
        ({3, 1, 2}, ["output [0]", "output [1]", "output [2]"]),
        (np.array(["a", "b"]), ["output [0]", "output [1]"]),
        (None, ["the output"]),
    ],
)  # fmt: skip
def test_places(tree: Any, places: list[str]) -> None:
    """Every part has a place that says where in the tree it is; a tuple of one is that one, many numbers are one part."""
    assert list(parts(tree)) == places


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        (np.ones(3, dtype=np.float32), "float32"),
        (np.ones(3)[::-1], "float64"),
        (np.ones(3, dtype=">f8"), "float64"),
        (np.ones(3, dtype=np.longdouble), "float64"),
        (np.float16(1), "float16"),
        (np.uint8(1), "uint8"),
        (1.5, "float64"),
        (1.5j, "complex128"),
        (7, "int"),
        (True, "bool"),
        ("text", "str"),
        (np.str_("text"), "str"),
        (Fraction(1, 3), "Fraction"),
    ],
)
def test_kinds(leaf: Any, kind: str) -> None:
    """Arrays and floating-point numbers become tensors of their type; other values stay what they are."""
    (part,) = parts(leaf).values()
    assert outputs.kind(part) == kind


def cyclic() -> Any:
    ring: list[Any] = [ONE]
    ring.append({"back": ring})
    return ring


def deep() -> Any:
    tree: Any = (ONE, ONE)
    for _ in range(200):
        tree = (tree, ONE)
    return tree


async def later() -> torch.Tensor:
    return ONE


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to drop them
        return torch.quantize_per_tensor(ONE, 0.1, 0, torch.qint8)


class NoIdentity:
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: (each for each in [ONE]), r"the output is a generator, whose work is not done yet: return its result"),
        (lambda: {"x": map(abs, [1])}, r"output \['x'\] is a map, whose work is not done"),
        (cyclic, r"output \[1\]\['back'\] holds itself"),
        (deep, "nested more than 64 levels deep"),
        (lambda: [[ONE, ONE] for _ in range(MOST_PARTS)], f"the output has more than {MOST_PARTS} parts: join them"),
        (lambda: (ONE, NoIdentity()), r"output \[1\] is a NoIdentity, which cannot be compared: return its tensors"),
        (ONE.to_sparse, r"the output is a tensor that is not stored element by element: return its .to_dense\(\)"),
        (quantised, r"is a quantised tensor: return its .int_repr\(\)"),
        (lambda: torch.ones(2, device="meta"), "not stored element by element"),
        (lambda: {"a" * 100: ONE, "a" * 101: ONE}, "give their keys names that differ"),
    ],
)
def test_what_cannot_be_taken_apart(make: Callable[[], Any], said: str) -> None:
    """A result that cannot be compared is refused with its place and what to return instead."""
    with pytest.raises(TypeError, match=said):
        parts(make())


def test_coroutine() -> None:
    """An async function that was only called has done nothing yet."""
    coroutine = later()
    with pytest.raises(TypeError, match="the output is a coroutine, whose work is not done yet"):
        parts(coroutine)
    asyncio.run(coroutine)


TREES = st.recursive(
    st.sampled_from([0.5, 7, None, "text"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=30,
)


@given(TREES)
def test_a_tree_agrees_with_itself(tree: Any) -> None:
    """Any tree of plain parts has as many places as parts, and its evidence agrees with that of an equal tree."""
    made = Workload(run=lambda: None)
    found = parts(tree)
    assert len(found) == len(list(outputs.leaves(tree, "output")))
    one, other = evidence(made, found), evidence(made, parts(tree))
    assert evidence_difference(one, other, ("a", "b")).problem is None
    changed = parts((tree, 1))
    assert evidence_difference(one, evidence(made, changed), ("a", "b")).problem


@given(st.integers(1, 3000), st.integers(0, 2**31), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_sketch_estimates_the_distance(size: int, seed: int, dtype: torch.dtype) -> None:
    """The distance of two sketches is that of the tensors, within a factor that a wrong answer would need to be far beyond."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(size, generator=generator).to(dtype)
    b = (a.double() + 1e-2 * torch.randn(size, generator=generator)).to(dtype)
    true = float((a.double() - b.double()).norm())
    norm, one = sketch(a)
    assert norm == pytest.approx(float(a.double().norm()))
    estimated = math.dist(one, sketch(b)[1])
    assert 0.3 * true <= estimated <= 2.5 * true + 1e-12


@given(st.integers(1, 5000), st.data(), st.floats(1e-3, 1e3))
def test_one_wrong_element_shows_in_full(size: int, data: Any, wrong: float) -> None:
    """A single wrong element changes the sketch by just as much, wherever it is."""
    at = data.draw(st.integers(0, size - 1))
    a = torch.zeros(size)
    b = a.clone()
    b[at] = wrong
    assert math.dist(sketch(a)[1], sketch(b)[1]) == pytest.approx(float(b[at]))


@pytest.mark.parametrize("columns", [1, 16, 61, 64, 1000, 4096])
def test_structured_differences_show(columns: int) -> None:
    """A wrong column, a wrong row and a constant offset are estimated well, whatever the width of the matrix."""
    rows = 512
    for wrong in (lambda m: m[:, 0].add_(1), lambda m: m[3].add_(1), lambda m: m.add_(1)):
        a = torch.zeros(rows, columns)
        wrong(a)
        norm, found = sketch(a)
        assert 0.05 * norm < math.hypot(*found) < 4 * norm


def test_sketch_of_large_and_odd_tensors() -> None:
    """Slices, complex numbers, strides and empty tensors are sketched like any other."""
    large = torch.randn((1 << 20) + 7)
    assert sketch(large)[0] == pytest.approx(float(large.double().norm()))
    pair = torch.randn(5, dtype=torch.complex64)
    assert sketch(pair.conj())[0] == pytest.approx(float(torch.view_as_real(pair).double().norm()))
    assert sketch(large[:12].reshape(3, 4).t())[1] == sketch(large[:12].reshape(3, 4).t().contiguous())[1]
    assert sketch(torch.empty(0)) == (0.0, [0.0] * outputs.SKETCH)


def test_a_list_that_holds_only_itself_is_refused() -> None:
    """A list of one element is that element, but not without end."""
    held: list[Any] = []
    held.append(held)
    with pytest.raises(TypeError, match="holds itself"):
        parts(held)


def test_an_exact_view_that_negates_has_the_digest_of_its_copy() -> None:
    """The imaginary part of a conjugate shares memory with what it negates."""
    for values in ([1 + 2j], [1 + 2j, 3 - 4j]):
        view = torch.tensor(values).conj().imag
        assert outputs.digest(view, "it") == outputs.digest(torch.tensor(view.tolist()), "it")


def test_one_element_of_a_matrix_has_an_exact_digest() -> None:
    """A tensor of one element counts as contiguous whatever its stride, also with an offset, and so does an empty one."""
    for place in (torch.arange(6.0).reshape(3, 2)[1:2, 1], torch.arange(6.0)[6::2]):
        assert outputs.digest(place, "it") == outputs.digest(torch.tensor(place.tolist()), "it")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint64, torch.bool])
def test_exact_types_have_a_digest(dtype: torch.dtype) -> None:
    """Integers agree only if all are equal and in the same places."""
    made = Workload(run=lambda: None)

    def of(*values: int) -> Any:
        return evidence(made, parts(torch.tensor(values).to(dtype)))

    assert evidence_difference(of(1, 0, 1), of(1, 0, 1), ("a", "b")).problem is None
    assert evidence_difference(of(1, 0, 1), of(1, 1, 0), ("a", "b")).problem == "the output is not the same in a and b"
    relaxed = Workload(run=lambda: None, tolerance={"int64": 0.5})
    near = [evidence(relaxed, parts(torch.tensor(values))) for values in ([100, 100], [100, 101])]
    assert evidence_difference(*near, ("a", "b")).problem is None


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (torch.ones(3), torch.ones(3) * 1.01, "the output is off by 9.9.e-03 .relative; 1.0e-04 allowed. between a and b"),
        (torch.ones(3), torch.ones(4), r"the output is float32 \(3,\) in a and float32 \(4,\) in b"),
        (torch.ones(3), torch.ones(3).double(), "float32 .* in a and float64"),
        ({"x": ONE}, {"y": ONE}, r"a returns output \['x'\], b does not"),
        ((ONE, ONE), (ONE, ONE, ONE), r"b returns output \[2\], a does not"),
        ((ONE, None), (ONE, ONE), r"output \[1\] is NoneType in a and float32 \(2,\) in b"),
        (torch.zeros(3), torch.ones(3), "is off by"),
        (torch.ones(3), torch.zeros(3), "is off by"),
        ("one", "two", "the output is not the same"),
    ],
)
def test_differences(one: Any, other: Any, said: str) -> None:
    """Two results that do not agree are told with the place and by how much."""
    made = Workload(run=lambda: None)
    found = evidence_difference(evidence(made, parts(one)), evidence(made, parts(other)), ("a", "b"))
    assert found.problem is not None
    assert re.search(said, found.problem), found.problem


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([1.0, math.nan]),
        np.array([math.nan, math.inf]),
        math.nan,
        {"x": (1, complex(0, math.inf))},
        decimal.Decimal("nan"),
    ],
)
def test_nan_is_no_evidence(value: Any) -> None:
    """A result that holds NaN agrees with nothing, itself included."""
    with pytest.raises(WrongResult, match="holds NaN or infinity"):
        evidence(Workload(run=lambda: None, tolerance={"float64": 1e300}), parts(value))


class Text:
    """Equal by content, with a text that leaves most of it out."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)

    __hash__ = None  # type: ignore[assignment]  only equality is needed


def test_values_that_only_one_process_can_compare() -> None:
    """A value whose text need not be the whole of it can be compared with a reference, but not between processes."""
    assert isinstance(parts(Text())["the output"], Value)
    with pytest.raises(TypeError, match=r"is a Text, which two processes cannot compare: .* or give the workload a reference"):
        evidence(Workload(run=lambda: None), parts(Text()))
