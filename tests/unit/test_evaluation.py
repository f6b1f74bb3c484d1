"""`ratchet evaluate` without processes: inputs as text, the verdict of pairs and of two clocks, and what the guard notices."""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from ratchet.core.errors import Exit
from ratchet.core.records.run import SIDES, Block, WorkerSamples
from ratchet.core.units import parse_size
from ratchet.lab.judge import exit_code, headline, is_confirmed, timed_verdict
from ratchet.lab.records.evaluation import EvaluationTask, EvaluationVerdict, InputSpec, Slope, SourceFile, Violation, parse_input
from tests import reports

torch = pytest.importorskip("torch")

from ratchet.core.bench import clocks  # noqa: E402
from ratchet.core.bench.child.outputs import Value  # noqa: E402
from ratchet.core.bench.client import WorkerClient  # noqa: E402
from ratchet.lab.child import evaluation  # noqa: E402  after the skip: it needs torch
from ratchet.lab.child.guard import Guard  # noqa: E402
from ratchet.lab.measure.evaluation import timed_from_outside  # noqa: E402


def workers(*times_ms: float) -> list[WorkerSamples]:
    """One worker a pair, each with one block, by a fine clock."""
    fine = [1 + 1e-7 * math.sqrt(2 + pair) for pair in range(len(times_ms))]
    blocks = [(Block(0, 0, (time_ms * digits,) * 3),) for time_ms, digits in zip(times_ms, fine, strict=True)]
    return [WorkerSamples(pair, True, block, 0.1, 0, 0.0) for pair, block in enumerate(blocks)]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("4096x4096", InputSpec(shape=(4096, 4096))),
        ("8:bfloat16", InputSpec(shape=(8,), dtype="bfloat16")),
        ("8:int64:-1..7", InputSpec(shape=(8,), dtype="int64", low=-1, high=7)),
        ("=0.5", InputSpec(number=0.5)),
    ],
)
def test_an_input_is_read(text: str, spec: InputSpec) -> None:
    """A shape, a type, a range of integers, or a number."""
    assert parse_input(text) == spec


@pytest.mark.parametrize("text", ["", "4096by4096", "8:float", "8:int64:7..7", "=x", "8x:float32", "8:float32:1"])
def test_anything_else_is_no_input(text: str) -> None:
    """The error says what could be written."""
    with pytest.raises(ValueError, match=r"is not an? |has no value"):
        parse_input(text)


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        ((1.00, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01), "faster"),
        ((4.00, 4.01, 3.99, 4.0, 4.01, 3.99, 4.0, 4.01), "slower"),
        ((2.00, 2.002, 1.998, 2.0, 2.002, 1.998, 2.0, 2.0), "same"),
        ((2.02, 2.022, 2.018, 2.02, 2.022, 2.018, 2.02, 2.02), "same"),
        ((1.00, 3.00, 2.0, 1.5, 2.5, 1.9, 1.9, 2.1), "inconclusive"),
        ((1.2, 1.2, 1.2, 2.1, 1.2, 1.2, 1.2, 1.2), "inconclusive"),
        ((1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), "inconclusive"),
        ((2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0), "inconclusive"),
        ((1.0, 1.0), "inconclusive"),
    ],
)
def test_pairs_decide(candidate: tuple[float, ...], verdict: str) -> None:
    """Faster needs the whole bound below no change, slower past 3 %, same both bounds within 3 %; seven pairs prove nothing."""
    assert timed_verdict(workers(*candidate), workers(*[2.0] * len(candidate)))[0] == verdict


def test_the_parents_clock_has_to_see_what_is_saved() -> None:
    """Half of the time is saved by both clocks, or by one only; what both sides do besides does not matter."""
    besides = Slope(baseline_ms=(12.0, 12.1, 11.9), candidate_ms=(7.0, 7.1, 6.9))
    assert is_confirmed(10.0, 5.0, besides)
    assert not is_confirmed(10.0, 5.0, besides.model_copy(update={"candidate_ms": (12.0, 12.1, 11.9)}))
    assert not is_confirmed(10.0, 0.1, besides)


@pytest.mark.parametrize(("candidate_ms", "confirmed"), [(8.8, True), (9.2, False)])
def test_the_scatter_of_the_parents_clock_is_allowed_for(candidate_ms: float, confirmed: bool) -> None:
    """Of 5 ms it has to see 3.5 ms less twice its median distance from the median, here 0.6 ms, whichever side scatters."""
    restless, steady = (12.0, 12.3, 11.7), (candidate_ms,) * 3
    assert is_confirmed(10.0, 5.0, Slope(baseline_ms=restless, candidate_ms=steady)) is confirmed
    scattered = tuple(candidate_ms + value - 12.0 for value in restless)
    assert is_confirmed(10.0, 5.0, Slope(baseline_ms=(12.0,) * 3, candidate_ms=scattered)) is confirmed


class FourMs:
    """A worker each of whose calls takes 4 ms by a clock of its own, so that no other process matters."""

    pid, now_s = 0, 0.0

    def ask(self, _op: str, _answer: type, *, samples: int, place: int) -> None:
        FourMs.now_s += 0.004 * samples


@pytest.mark.parametrize(("agrees_after", "rounds"), [(1, 5), (7, 7), (99, 20)])
def test_the_parents_clock_goes_on_while_it_does_not_agree(
    agrees_after: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least five rounds, at most twenty; a few of a busy machine can hide what a candidate saves."""
    monkeypatch.setattr("ratchet.lab.measure.evaluation.time", SimpleNamespace(perf_counter=lambda: FourMs.now_s))
    monkeypatch.setattr("ratchet.lab.measure.evaluation._cpu_s", lambda _: FourMs.now_s)
    sides = {side: cast(WorkerClient, FourMs()) for side in SIDES}
    slope, _ = timed_from_outside(sides, lambda slope: len(slope.baseline_ms) >= agrees_after)
    assert len(slope.baseline_ms) == len(slope.candidate_ms) == rounds
    assert statistics.median(slope.baseline_ms) == pytest.approx(4)


@pytest.mark.parametrize(
    ("verdict", "code", "said"),
    [
        ("faster", 0, "Faster: 2.000 times as fast (95 % interval 1.980 to 2.020, 8 pairs)."),
        ("same", 0, "As fast as the baseline, within 3 % (95 % interval 1.980 to 2.020, 8 pairs)."),
        ("slower", 1, "Slower: 2.000 times as fast (95 % interval 1.980 to 2.020, 8 pairs)."),
        (
            "unconfirmed",
            3,
            "Not confirmed: 2.000 times as fast by the clock in the candidate's process (95 % interval 1.980 to 2.020, 8 pairs), "
            "but the evaluator's own clock does not see the time saved. Launch overhead may hide it: use a larger input, or a "
            "CUDA graph.",
        ),
        (
            "inconclusive",
            3,
            "Inconclusive: 2.000 times as fast (95 % interval 1.980 to 2.020, 8 pairs); measure on a quieter machine, or with "
            "more --pairs.",
        ),
        ("not measured", 3, "Not measured: too few pairs."),
    ],
)
def test_a_headline_and_a_code_for_each_verdict(verdict: EvaluationVerdict, code: int, said: str) -> None:
    """Only what was shown exits with 0, and the sentence has the speed with its interval."""
    comparison = reports.comparison(0.5, low=1 / 2.02, high=1 / 1.98, pairs=8)
    assert exit_code(verdict) == Exit(code)
    assert headline(verdict, comparison, (), "") == said


def test_a_headline_without_figures() -> None:
    """A violation comes before any figure, and where nothing was measured the trouble is what is said."""
    comparison = timed_verdict(workers(*[1.0] * 6), workers(*[2.0] * 6))[1]
    broken = Violation(rule="outputs", message="outputs differ by 1.00e-02")
    assert exit_code("violated") is Exit.REGRESSION
    assert headline("violated", comparison, (broken,), "") == "Not accepted: outputs differ by 1.00e-02."
    assert headline("not measured", None, (), "The baseline failed: no") == "Not measured: The baseline failed: no"
    assert headline("inconclusive", None, (), "") == "Not measured: too few pairs."


REPLACED: dict[str, tuple[Callable[[pytest.MonkeyPatch], Any], str]] = {
    "a clock": (lambda patch: patch.setattr(time, "perf_counter", lambda: 0.0), "time.perf_counter was replaced"),
    "statistics": (lambda patch: patch.setattr(statistics, "median", min), "statistics.median was replaced"),
    "an event": (lambda patch: patch.setattr(torch.cuda.Event, "record", print), "Event.record was replaced"),
    "a method": (lambda patch: patch.setattr(torch.Tensor, "copy_", print), "Tensor.copy_ was replaced"),
    "the harness": (lambda patch: patch.setattr("ratchet.core.bench.child.calls.seed_all", print), "seed_all was replaced"),
    "a module": (
        lambda patch: patch.setitem(sys.modules, "ratchet.core.units", ModuleType("units")),
        "ratchet.core.units was replaced",
    ),
    "code": (lambda patch: patch.setattr(parse_size, "__code__", (lambda value: 0).__code__), "parse_size was replaced"),
}


@pytest.mark.parametrize("what", REPLACED)
def test_the_guard_names_what_was_replaced(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing before, its name after, nothing again once it is put back."""
    guard = Guard()
    before = guard.replaced()
    replace, name = REPLACED[what]
    with monkeypatch.context() as patch:
        replace(patch)
        assert guard.replaced().endswith(name)
    assert guard.replaced() == before


def test_lines_pinned_in_l2_break_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was set aside before the candidate was imported is no fault of it; a driver without the call says 0."""
    pinned = 1 << 20

    class Driver:
        def cuCtxGetLimit(self, size: Any, limit: int) -> int:  # noqa: N802  the driver's name
            size._obj.value = pinned
            return 0 if limit == 6 else 1

    drivers: list[type[Driver]] = [Driver]
    monkeypatch.setattr(clocks, "_driver", lambda: drivers[0]() if drivers else None)
    monkeypatch.setattr(evaluation, "_is_initialized", lambda: True)
    source = SourceFile(path="candidate.py", sha256="", text="def kernel(x):\n    return x\n")
    loader = evaluation._Loader(EvaluationTask(source=source, function="kernel", strict=True))
    for owner, name, value in ((os, "chdir", print), (sys, "path", [*sys.path]), (sys, "modules", {**sys.modules})):
        monkeypatch.setattr(owner, name, value)
    loader.function()
    pinned = 16 << 20
    with pytest.raises(evaluation.BrokenRule, match=r"^harness: it sets 16.0 MiB of L2 aside"):
        loader.check()
    drivers.clear()
    loader.check()


class Array:
    """An array as CuPy has it: DLPack on its device, a comparison that gives an array, and no NumPy."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def __dlpack__(self, **settings: Any) -> Any:
        return self.values.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __eq__(self, other: object) -> Any:
        return Array(self.values == other)

    __hash__ = None  # type: ignore[assignment]  # as CuPy's: no key of a table


def test_arrays_of_other_libraries_are_results() -> None:
    """Alone, and in tuples and dicts: each is the memory that it shares, and never an object that is compared by its text."""
    x = torch.arange(6.0).reshape(2, 3)
    assert evaluation.taken(Array(x), []).data_ptr() == x.data_ptr()
    found = evaluation._parts(evaluation.taken({"a": Array(x), "b": (Array(x), 1)}, []), strict=True)
    assert [type(part) for part in found.values()] == [torch.Tensor, torch.Tensor, Value]
    assert all(torch.equal(part, x) for part in found.values() if isinstance(part, torch.Tensor))


@pytest.mark.parametrize(("text", "size"), [("4000MB", 4000 << 20), ("1.5 GiB", 3 << 29), ("512", 512), (512, 512)])
def test_a_size_is_read(text: object, size: int) -> None:
    """With a unit of two to the tenth, twentieth or thirtieth, or in bytes; anything else says what could be written."""
    assert parse_size(text) == size
    for other in ("much", "4000 mb/s", True, None):
        with pytest.raises(ValueError, match="write 4000MB"):
            parse_size(other)
