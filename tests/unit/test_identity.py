"""Launches of two processes, made comparable; and the memory that they name. Without a GPU."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.bench.child.loader import LoadedTree
from ratchet.core.bench.child.reads import Provenance
from ratchet.core.bench.child.registry import Catalogue
from ratchet.core.bench.child.worker import Worker, one_work_queue
from ratchet.core.bench.messages import CaseListed, Identified, parse
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.wire import ProtocolError
from ratchet.core.config import Settings
from ratchet.core.records.tuned import Tuned
from ratchet.core.workload import Benchmark, Workload
from ratchet.identical import launches as identity
from ratchet.identical.launches.capture import (
    Allocation,
    Allocations,
    Contents,
    Memory,
    Operators,
    covering,
    described,
    live,
    reserved,
    weights,
)
from ratchet.identical.launches.driver import MOST_LAUNCHES, Driver, Identity, NoIdentity
from ratchet.identical.launches.record import (
    Comparable,
    Launches,
    Node,
    Place,
    TensorAt,
    Unknown,
    comparable,
    difference,
    digest,
    shown,
)

pytestmark = pytest.mark.no_cover

PAGE = 1 << 40
"""Far above any scalar that these tests use."""


def address(allocation: int, offset: int, base: int) -> bytes:
    return (base + allocation * PAGE + offset).to_bytes(8, "little")


def finder(base: int):
    """Finds addresses of sixteen allocations of one page each, from ``base`` on."""

    def find(value: int) -> Place | None:
        which, offset = divmod(value - base, PAGE)
        return Place(f"at {which}", offset) if 0 <= which < 16 else None

    return find


pointers = st.tuples(st.integers(0, 15), st.integers(0, PAGE - 1))
arguments = st.lists(st.one_of(pointers, st.binary(min_size=1, max_size=7), st.integers(0, 1 << 31)), max_size=6)
kernels = st.lists(st.tuples(st.sampled_from(["first", "second"]), st.integers(1, 99), arguments), min_size=1, max_size=5)


def build(told: list[tuple[str, int, list[Any]]], base: int, order: list[int] | None = None) -> Launches:
    """The graph of these kernels, one after the other, with the allocations of a process that starts at ``base``."""

    def value(one: Any) -> bytes:
        if isinstance(one, tuple):
            return address((order or list(range(16)))[one[0]], one[1], base)
        return one if isinstance(one, bytes) else one.to_bytes(8, "little")

    nodes = [
        Node("kernel", name, (grid, 1, 1, 32, 1, 1, 0), (), tuple((8 * at, value(one)) for at, one in enumerate(values)))
        for name, grid, values in told
    ]
    return Launches(tuple(nodes), tuple((at, at + 1, "00" * 8) for at in range(len(nodes) - 1)))


def told_of(launches: Launches, base: int) -> str:
    comparables = comparable(launches, finder(base))
    return digest([comparables.nodes, comparables.edges])


@given(kernels, st.permutations(range(16)))
def test_where_memory_lies_does_not_matter(told: Any, order: list[int]) -> None:
    """Launches are equal in two processes that allocated the same in other places."""
    assert told_of(build(told, PAGE), PAGE) == told_of(build(told, 99 * PAGE, order), 99 * PAGE)


@given(kernels, st.data())
def test_whatever_else_differs_is_told(told: Any, data: st.DataObject) -> None:
    """A changed grid, name, argument or offset, a launch more, or two allocations swapped for one makes a difference."""
    before = told_of(build(told, PAGE), PAGE)
    index = data.draw(st.integers(0, len(told) - 1))
    name, grid, values = told[index]
    others: list[Any] = [
        [*told[:index], (name + "x", grid, values), *told[index + 1 :]],
        [*told[:index], (name, grid + 1, values), *told[index + 1 :]],
        [*told[:index], (name, grid, [*values, 7]), *told[index + 1 :]],
        [*told, told[0]],
    ]
    if values:
        at = data.draw(st.integers(0, len(values) - 1))
        changed = _changed(values[at])
        others.append([*told[:index], (name, grid, [*values[:at], changed, *values[at + 1 :]]), *told[index + 1 :]])
    for other in others:
        assert told_of(build(other, PAGE), PAGE) != before


def _changed(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0], (value[1] + 1) % PAGE
    return bytes([value[0] ^ 1, *value[1:]]) if isinstance(value, bytes) else value ^ 1


def test_one_allocation_twice_is_not_two() -> None:
    """A kernel that reads and writes one tensor is not one that reads one and writes another."""
    assert told_of(build([("k", 1, [(0, 0), (0, 0)])], PAGE), PAGE) != told_of(build([("k", 1, [(0, 0), (1, 0)])], PAGE), PAGE)


def test_addresses_within_structures() -> None:
    """An address is found at any multiple of eight bytes of an argument; the bytes around it are compared as they are."""
    node = Node("kernel", "k", values=((0, bytes(range(8)) + address(3, 5, PAGE) + b"tail"),))
    found = comparable(Launches((node,), ()), finder(PAGE))
    assert found.nodes[0][5] == [[0, "0001020304050607", [0, 5], b"tail".hex()]]
    assert found.allocations == ("at 3",)


@pytest.mark.parametrize("kind", ["memcpy", "memset"])
def test_copies_stay_within_the_gpu(kind: str) -> None:
    """A copy or fill of memory that no allocation holds is opaque; of memory that one does, it is compared."""
    inside = Node(kind, shape=(16, 1, 1), values=((0, address(0, 0, PAGE)),))
    assert comparable(Launches((inside,), ()), finder(PAGE)).allocations == ("at 0",)
    outside = Node(kind, shape=(16, 1, 1), values=((0, address(99, 0, PAGE)),))
    with pytest.raises(NoIdentity, match="not the GPU's"):
        comparable(Launches((outside,), ()), finder(PAGE))


@given(st.permutations(range(6)))
def test_a_chain_has_one_order(order: list[int]) -> None:
    """However the driver lists the nodes of a chain, they come in the order in which they run."""
    place = {number: at for at, number in enumerate(order)}
    nodes = tuple(Node("kernel", str(number)) for number in order)
    edges = tuple((place[number], place[number + 1], "") for number in range(5))
    ordered = Launches(nodes, edges).ordered()
    assert [node.name for node in ordered.nodes] == list("012345")
    assert ordered.edges == tuple((number, number + 1, "") for number in range(5))


def test_what_waits_for_what_is_told() -> None:
    """Two launches side by side are not two in a row, nor two that overlap as programmatic launches do."""
    nodes = (Node("kernel", "a"), Node("kernel", "b"))
    alike = [told_of(Launches(nodes, edges), PAGE) for edges in ((), ((0, 1, "00"),), ((0, 1, "01"),))]
    assert len(set(alike)) == 3


def test_launches_of_one_stream_wait_for_each_other() -> None:
    """Launches run one by one if each waits for the one before it; not if some may run side by side, or nobody waits for one."""
    nodes = tuple(Node("kernel", name) for name in "abcd")
    pairs = {
        "a chain": ((0, 1), (1, 2), (2, 3)),
        "two side by side": ((0, 1), (0, 2), (1, 3), (2, 3)),
        "one that nobody waits for": ((0, 1), (1, 2)),
    }
    found = {name: Launches(nodes, tuple((*pair, "") for pair in edges)).one_by_one for name, edges in pairs.items()}
    assert found == {"a chain": True, "two side by side": False, "one that nobody waits for": False}
    assert Launches(nodes[:1], ()).one_by_one


@pytest.mark.parametrize("users", [None, "4"])
def test_one_work_queue_is_asked_of_the_driver_alone(users: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads the variable while a context is made; Python code never sees it, and what a user has set stays."""
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    monkeypatch.delenv(name, raising=False)
    if users:
        monkeypatch.setenv(name, users)
    read = ctypes.CDLL(None).getenv
    read.restype = ctypes.c_char_p
    with one_work_queue():
        assert read(name.encode()) == (users or "1").encode()
        assert os.environ.get(name) == users
    assert read(name.encode()) == (users.encode() if users else None)


def test_paths_in_names_do_not_matter_unless_they_must() -> None:
    """nvcc's hash of a path is left out of a name, but not where two kernels of a call would then have one name."""
    first, second = (f"_ZN45_GLOBAL__N__{path}_12_normalize_cu_ce52c34b4rowsEv" for path in ("4aee4211", "0e25ba3e"))
    alone = [told_of(Launches((Node("kernel", name),), ()), PAGE) for name in (first, second)]
    assert alone[0] == alone[1]
    both = [told_of(Launches((Node("kernel", a), Node("kernel", b)), ()), PAGE) for a, b in ((first, second), (second, first))]
    assert both[0] != both[1]


def test_kernels_of_one_name_are_told_apart() -> None:
    """Two kernels that share a name, as for two tile sizes, are not mistaken for each other; their handles do not matter."""

    def told(*handles: int) -> str:
        return told_of(Launches(tuple(Node("kernel", "scale", function=handle) for handle in handles), ()), PAGE)

    assert told(1, 2, 1) != told(1, 2, 2)
    assert told(1, 2, 1) == told(7, 5, 7)


def test_shown_launches_are_few_and_short() -> None:
    """People see a line a launch, cut where a name is long, and fifty at most, the last of which counts the rest."""
    node = Node("kernel", "k" * 500, (4, 2, 1, 128, 1, 1, 0))
    lines = shown(Launches((node,) * 60, ()))
    assert len(lines) == MOST_LAUNCHES
    assert lines[0].endswith("… grid (4, 2, 1) block (128, 1, 1)")
    assert len(lines[0]) < 150
    assert lines[-1] == "and 11 more"
    assert shown(Launches((Node("memcpy", shape=(16, 1, 1)), Node("empty")), ())) == ("memcpy 16 × 1 × 1", "empty")


def test_an_identity_is_known_or_not() -> None:
    """An identity has a digest or a reason, never both or none; on the CPU it has a reason."""
    for fields in (("", ""), ("a", "b")):
        with pytest.raises(ValueError, match="a digest, or a reason"):
            Identity(*fields)
    assert identity.of(lambda: 1, Path(), "cpu").opaque == "on the CPU no machine code is exposed"


def test_without_a_driver_a_workload_is_opaque() -> None:
    """What goes wrong while looking is a reason, not an error, and the process is then not used again."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    found = identity.of(lambda: 1, Path(), "cuda")
    assert found.opaque.startswith("looking at its launches failed: ")
    assert found.spent


@pytest.mark.parametrize(
    "message",
    [
        {"digest": "", "opaque": ""},
        {"digest": "a" * 64, "opaque": "both"},
        {"digest": "A" * 64, "opaque": ""},
        {"digest": "a" * 63, "opaque": ""},
        {"digest": "a" * 64},
        {"digest": "a" * 64, "opaque": "", "launches": [1]},
    ],
)
def test_nonsense_is_no_identity(message: dict[str, object]) -> None:
    """A worker's answer with both, neither, or a digest that is none, is Rubbish."""
    with pytest.raises(ProtocolError):
        parse(message, Identified)


def test_identified() -> None:
    """A worker's answer is understood; what it quotes from an author's code is made safe to print."""
    found = parse({"digest": "a" * 64, "opaque": "", "launches": ["k\x1b[31m grid\n(1, 1, 1)"], "spent": False}, Identified)
    assert found.launches == ("k grid (1, 1, 1)",)
    assert parse({"digest": "", "opaque": "why\x07"}, Identified).opaque == "why"


def worker(tmp_path: Path, call: Callable[[], torch.Tensor]) -> Worker:
    """A worker in this process, on the CPU, with one case."""

    def build(*, device: torch.device) -> Workload:
        return Workload(run=call, reference=lambda: torch.ones(4).double(), dtype="float32", flops=4, bytes=16)

    provenance = Provenance(tmp_path, tmp_path, frozenset())
    assert provenance.tree == tmp_path
    catalogue = Catalogue((CaseListed("one/x", "one", "x", "one.py"),), (), {"one": Benchmark("one", build, {})})
    spec = TreeSpec.of(Settings(), tmp_path, checkout=tmp_path, device="cpu", gpu_uuid=None)
    made = Worker(LoadedTree(spec, provenance, catalogue, Tuned()))
    prepare = {"case": "one/x", "seed": 1, "clock": "auto", "cache": "cold", "placements": 1, "check": True}
    assert "trouble" not in made.answer({"op": "prepare", **prepare})
    return made


def test_a_worker_on_the_cpu_is_opaque(tmp_path: Path) -> None:
    """On the CPU a worker says why it cannot tell; the case is given up, and a case must be prepared first."""
    made = worker(tmp_path, lambda: torch.ones(4))
    found = parse(made.answer({"op": "identify"}), Identified)
    assert (found.opaque, found.spent) == ("on the CPU no machine code is exposed", False)
    for op in ({"op": "identify"}, {"op": "block", "samples": 1, "place": 0}):
        assert "no case is prepared" in made.answer(op)["trouble"]


def test_an_error_while_looking_costs_no_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in a worker while it looks is a reason, after which the worker is not used again."""
    made = worker(tmp_path, lambda: torch.ones(4))
    monkeypatch.setattr(identity, "of", lambda *_: sys.exit("no"))
    found = parse(made.answer({"op": "identify"}), Identified)
    assert (found.opaque, found.spent) == ("looking at its launches failed: SystemExit: no", True)


SEGMENTS: list[dict[str, Any]] = [
    {
        "device": 0,
        "address": 1 << 30,
        "total_size": 4096,
        "segment_pool_id": (0, 0),
        "blocks": [
            {"address": 1 << 30, "size": 512, "requested_size": 500, "state": "active_allocated"},
            {"address": (1 << 30) + 512, "size": 512, "requested_size": 0, "state": "inactive"},
            {"address": (1 << 30) + 1024, "size": 3072, "requested_size": 3072, "state": "active_allocated"},
        ],
    },
    {"device": 0, "address": 1 << 31, "total_size": 8192, "segment_pool_id": (0, 3), "blocks": []},
    {"device": 1, "address": 1 << 32, "total_size": 8192, "segment_pool_id": (0, 3), "blocks": []},
]


def test_snapshot() -> None:
    """Of torch's snapshot count the blocks in use, with the bytes asked for, and all segments of one device."""
    assert live(SEGMENTS, 0) == [(1 << 30, 500), ((1 << 30) + 1024, 3072)]
    assert reserved(SEGMENTS, 0) == [(1 << 30, 4096), (1 << 31, 8192)]


def _event(action: str, address: int, size: int) -> dict[str, object]:
    return {"action": action, "addr": address, "size": size}


def test_allocations_of_calls() -> None:
    """A call can have used what it got, freed or not, and what earlier calls left; of two at one address the larger stands."""
    allocations = Allocations()
    first = [
        _event("alloc", 100, 8),
        _event("alloc", 200, 16),
        _event("free_requested", 100, 8),
        _event("free_completed", 100, 8),
        _event("alloc", 100, 4),
        _event("segment_alloc", 100, 4096),
        _event("free_completed", 100, 4),
    ]
    assert allocations.of_call(first) == [(100, 8), (200, 16)]
    assert allocations.of_call([_event("alloc", 300, 2), _event("free_completed", 200, 16)]) == [(200, 16), (300, 2)]
    assert allocations.of_call([]) == [(300, 2)]


def test_difference_names_the_launch() -> None:
    """Where two calls do not launch the same, the first launch that differs is named, and what of it."""

    def call(grid: int, value: str) -> Comparable:
        return Comparable((["kernel", "fill", 0, [1], [], []], ["kernel", "scale", 1, [grid], [], [[0, value]]]), (), ())

    assert difference(call(4, "a"), call(4, "a")) == ""
    assert difference(call(4, "a"), call(5, "a")) == "launch 2 of 2 (scale) has other grid or block"
    assert difference(call(4, "a"), call(4, "b")) == "launch 2 of 2 (scale) has other arguments"
    assert difference(call(4, "a"), Comparable(call(4, "a").nodes[:1], (), ())) == "2 launches in one call, 1 in the next"


SUM = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_"


def _sum_over(dims: list[int], content: bytes = b"", start: int = 100) -> Comparable:
    """A sum of the tensor at ``start``, with these bytes for its arguments."""

    def find(address: int) -> Place | None:
        return Place(Allocation("before", start, 64), address - start) if start <= address <= start + 64 else None

    operator = ["aten.sum.dim_IntList", [TensorAt(start, ([4, 4], [4, 1], "torch.float32")), dims], [], None]
    return comparable(Launches((Node("kernel", SUM, (1,), values=((0, content),), function=7),), ()), find, [operator], {7})


def test_a_kernel_of_torch_is_compared_by_its_operator() -> None:
    """Bytes that torch never wrote make no difference; what the sum is over, and of which tensor, does."""
    assert difference(_sum_over([0], b"rubbish!"), _sum_over([0], b"leftover")) == ""
    assert difference(_sum_over([0]), _sum_over([1])) == "the operators of torch differ"
    moved = _sum_over([0], start=900)
    assert difference(_sum_over([0]), moved) == ""
    assert moved.allocations == (Allocation("before", 900, 64),)
    random = [["aten.randn", [Unknown("Generator")], [], None]]
    with pytest.raises(NoIdentity, match="an operator of torch gets a Generator"):
        comparable(Launches((Node("kernel", SUM),), ()), lambda _: None, random, {0})
    assert comparable(Launches((Node("kernel", "gemm"),), ()), lambda _: None, random).operators == ()


def test_operators_are_recorded_and_their_results_held() -> None:
    """Each operator of a call, also of its backward pass, is recorded with its arguments as they were before it ran."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    kept: list[weakref.ref[torch.Tensor]] = []

    def call() -> None:
        product = x.detach() * 3.0
        kept[:] = [weakref.ref(product)]
        del product
        torch.autograd.grad((x * 2.0).sum(), x)
        assert kept[0]() is not None

    recorded = Operators()
    recorded.held(call)()
    assert kept[0]() is None
    names = [name for name, *_ in recorded.calls]
    assert names.count("aten.mul.Tensor") == 3
    assert "aten.sum.default" in names
    again = Operators()
    again.held(call)()
    assert again.calls == recorded.calls
    y = torch.zeros(2)
    in_place = Operators()
    in_place.held(lambda: y.add_(1.0))()
    in_place.held(lambda: y.add_(1.0))()
    assert in_place.calls[0][1] != in_place.calls[1][1]


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (torch.float16, True),
        ([None, 1, 2.5, "x", torch.device("cpu"), torch.strided], True),
        (torch.ones(3, 2).T, True),
        (torch.ones((), dtype=torch.bfloat16), True),
        (torch.Generator(), False),
        (torch.zeros(1 << 19), False),
        (torch.eye(2).to_sparse(), False),
        (object(), False),
    ],
)
def test_arguments_of_operators(value: object, known: bool) -> None:
    """Numbers, types and small tensors of the host are compared by value; anything else is of unknown content."""
    assert isinstance(described(value), Unknown) is not known
    assert described(value) == described(value)


def test_memory_of_ones_own_may_lie_anywhere_within_a_process() -> None:
    """Calls that got their own memory elsewhere are equal without it, and not with it; an address of an input always counts."""
    own, other, x, y = Allocation("during", 100, 8), Allocation("during", 300, 8), *(Allocation("before", n, 8) for n in (10, 20))

    def call(*allocations: Allocation) -> Comparable:
        values = [[number, [number, 0]] for number in range(len(allocations))]
        return Comparable((["kernel", "scale", 0, [1], [], values],), (), allocations)

    def twice(one: Allocation) -> Comparable:
        return Comparable((["kernel", "scale", 0, [1], [], [[0, [0, 0]], [1, [0, 0]]]],), (), (one,))

    assert difference(call(own, other), twice(own)) != ""
    assert difference(call(own, other).without_own_memory(), twice(own).without_own_memory()) == ""
    assert difference(call(x, own).without_own_memory(), call(y, own).without_own_memory()) != ""
    assert difference(call(x, own).without_own_memory(), call(own, x).without_own_memory()) != ""


@pytest.mark.parametrize(("at", "start"), [(9, None), (10, 10), (14, 10), (15, 10), (16, None), (20, 20), (25, 20), (26, None)])
def test_covering(at: int, start: int | None) -> None:
    """A range holds its addresses and the one just past its end, unless that begins the next one."""
    found = covering([(10, 5), (20, 5)], at)
    assert (found and found[0]) == start


class Here(Driver):
    """Device memory that is this process's own."""

    def __init__(self, foreign: tuple[int, int] | None = None) -> None:
        super().__init__("libc.so.6")
        self.foreign = foreign

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self._library.memcpy(ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(size))

    def points_to(self, address: int) -> tuple[int, int] | None:
        return self.foreign if self.foreign and covering([self.foreign], address) else None


def contents(driver: Driver) -> Contents:
    return Contents(driver, torch.device("cpu"), 0, chunk_words=16)


@given(st.binary(min_size=1, max_size=700), st.data())
def test_contents(data: bytes, draws: st.DataObject) -> None:
    """Equal bytes have equal checksums wherever they lie; one changed bit, or one byte less, changes them."""
    at = draws.draw(st.integers(0, len(data) - 1))
    changed = bytearray(data)
    changed[at] ^= 1 << draws.draw(st.integers(0, 7))
    tensors = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in (data, data, changed)]
    sums = contents(Here()).sums([(tensor.data_ptr(), len(data)) for tensor in tensors])
    assert sums[0] == sums[1] != sums[2]
    assert len(sums[0]) == -(-len(data) // 128)


def test_contents_of_nothing() -> None:
    """No memory has no checksums, and more than can be read in a moment is opaque."""
    assert contents(Here()).sums([]) == []
    with pytest.raises(NoIdentity, match="too much memory"):
        contents(Here()).sums([(PAGE, 1 << 50)])


def test_weights_are_odd_and_all_different() -> None:
    """Every word counts, and exchanging two of them changes a checksum."""
    found = weights(1 << 12, torch.device("cpu"))
    assert bool((found & 1).all())
    assert len(set(found.tolist())) == len(found)


def test_memory() -> None:
    """Places know their allocation; contents of all that was there before count, whether a launch names it or not."""
    tensors = [torch.full((64,), value) for value in (1.0, 2.0, 3.0)]
    strange = torch.full((64,), 4.0)
    ranges = sorted((tensor.data_ptr(), 256) for tensor in tensors)
    other = (strange.data_ptr(), 256)

    def told() -> tuple[list[object], list[Place | None]]:
        driver = Here(other)
        memory = Memory(driver, contents(driver), ranges)
        memory.captured([(1 << 50, 8192)])
        find = partial(memory.find, [(1 << 50, 4096)])
        asked = [tensors[0].data_ptr() + 8, (1 << 50) + 16, strange.data_ptr(), 12345, 1 << 51]
        places = [find(address) for address in asked]
        with pytest.raises(NoIdentity, match="no tensor holds"):
            find((1 << 50) + 5000)
        return memory.described([place.allocation for place in places if place]), places

    before, places = told()
    assert [place and place.offset for place in places] == [8, 16, 0, None, None]
    assert told()[0] == before
    for tensor in (*tensors, strange):
        tensor[5] += 1
        assert told()[0] != before
        tensor[5] -= 1
    assert told()[0] == before
