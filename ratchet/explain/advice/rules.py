"""The rules: each finds one antipattern in a timeline, where it is, and the time that it costs.

`ratchet.explain.advice` calls `findings`. A moment is lost once: the rules stand from the particular to the general, and each
claims the pieces of time that it explains. Pure. Times are microseconds.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from ratchet.core.judge.roofs import highest
from ratchet.core.records.profile import Category
from ratchet.core.units import duration, plural, rate, size
from ratchet.explain.advice.patterns import PATTERNS
from ratchet.explain.advice.timeline import ALLOCATIONS, LOADER, NOWHERE, Cause, CodePlace, Cover, Piece, Timeline, grouped, top
from ratchet.explain.advice.trace import GpuEvent, HostEvent
from ratchet.explain.records import AdviceFinding, Where

FLOOR_US = 100.0
"""Smallest time that is a finding."""
FEWEST = 3
"""Below this it may be chance, or what a script does once."""
SMALL_COPY = 1 << 16
"""Bytes up to which a copy costs its call, not its size."""
PINNED = 2.5e4
"""Bytes a µs that pinned memory reaches on PCIe 4.0, where the trace has no such copy to compare with."""
LONG_US = 10.0
"""From here on a kernel takes longer than its launch."""
FEW_ROWS, USUAL_BATCH, LEAST_WEIGHTS = 8, 32, 1 << 16
"""Up to so many rows a product takes as long as reading its weights, if these are so many; up to a usual batch nearly so."""
LOADER_WORKERS, PASSED_ON = 4, 0.5
"""Workers that are reckoned with, and the share of the loader's time on a CPU that they take over: the batches have to be passed
between processes, and workers take cores from the operators."""
TF32_GAIN = 3.0
_PRODUCTS = frozenset(f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "matmul", "linear"))
_FACTORIES = frozenset(
    f"aten::{name}{like}"
    for name in ("zeros", "ones", "full", "rand", "randn", "arange", "linspace", "eye")
    for like in ("", "_like")
)
_MAKERS = ("tensor", "as_tensor", "asarray", "scalar_tensor")
"""Functions that make a tensor of numbers of the host, and do nothing else."""
_PARTS = frozenset(f"aten::{name}" for name in ("unbind", "split", "chunk"))
"""Operators that give all rows or parts at once, to be walked through."""
_CATS = frozenset(f"aten::{name}" for name in ("cat", "concat", "concatenate", "hstack", "vstack", "column_stack", "pad"))
_FROM_NUMPY = re.compile(r"<built-in method (?:from_numpy|as_tensor|asarray) ")
_READS = ("print", "item", "cpu", "tolist", "numpy", "format", "__repr__", "__str__", "__format__")
"""Functions all of whose work is for reading a value."""
_TAKES = frozenset(f"aten::{name}" for name in ("select", "slice", "unbind", "split", "chunk", "narrow"))
_BESIDE = _TAKES | {
    f"aten::{name}"
    for name in (
        *("copy_", "fill_", "as_strided", "view", "unsqueeze", "squeeze", "t", "transpose", "reshape"),
        *("empty", "empty_like", "detach", "alias", "stack"),
    )
}
"""Operators that may stand between the products of one loop."""
_FP32 = re.compile(r"(?<![a-z])sgemm|f32f32_f32f32_f32|_ffma_|gemmSN|implicit_convolve_sgemm")
_OTHERWISE = re.compile(r"tf32|tensorop|s1688|h884|bf16|f16|elementwise|reduce|splitK", re.IGNORECASE)
"""In names of kernels that do not multiply float32 as it is."""
_POINTWISE = re.compile(r"(?<!index_)elementwise_kernel")

Rule = Callable[[Timeline], Iterator[AdviceFinding]]


def findings(line: Timeline) -> list[AdviceFinding]:
    """Return what costs at least `Pattern.least` and `FLOOR_US`, the costliest pattern first; what may be wrong comes last.

    Small kernels come behind a wait in the loop, whatever either costs: it breaks the capture of the graph that would help. And
    while the queue runs empty at each wait, every launch is in sight, most of all under a profiler, which slows the host alone.
    """
    found = [finding for rule in RULES for finding in rule(line)]
    kept = [
        one
        for one in found
        if one.category == "correctness" or (one.share >= PATTERNS[one.pattern].least and one.lost_us >= FLOOR_US)
    ]
    costs: dict[str, float] = defaultdict(float)
    for one in kept:
        costs[one.pattern] += one.lost_us
    if "sync-in-loop" in costs and "small-kernels" in costs:
        costs["small-kernels"] = min(costs["small-kernels"], costs["sync-in-loop"])
    return sorted(kept, key=lambda one: (-costs[one.pattern], one.pattern == "small-kernels", -one.lost_us))


def _finding(
    line: Timeline, name: str, place: CodePlace, times: int, lost_us: float, what: str, category: Category | None = None
) -> AdviceFinding:
    pattern = PATTERNS[name]
    lost_us = min(max(lost_us, 0.0), line.window_us)
    return AdviceFinding(
        pattern=name,
        category=category or pattern.category,
        where=None if place == NOWHERE else Where(**place._asdict()),
        times=times,
        lost_us=lost_us,
        share=lost_us / line.window_us,
        what=what,
        do=pattern.do,
        gain=pattern.gain,
        quick_win=pattern.quick_win[0],
        quick_win_case=pattern.quick_win[1],
    )


def _claim(pieces: Iterable[Piece]) -> float:
    """Claim the pieces that nobody has claimed. Return their time."""
    us = 0.0
    for piece in pieces:
        if not piece.claimed:
            piece.claimed = True
            us += piece.us
    return us


def _claim_ops(line: Timeline, ops: Iterable[HostEvent]) -> tuple[float, list[GpuEvent]]:
    """Claim outermost operators. Return the time that the GPU had nothing to do because of them, and their work on it."""
    fresh = {id(top(op)) for op in ops} - line.claimed
    line.claimed |= fresh
    idle_us = _claim(piece for op in fresh for piece in line.pieces_of.get(op, ()))
    return idle_us, [work for op in fresh for work in line.work_of.get(op, ())]


def _is_free(line: Timeline, work: GpuEvent) -> bool:
    """Return whether no rule has explained a piece of GPU work yet."""
    return id(work) not in line.claimed and (work.call is None or id(top(work.call)) not in line.claimed)


def _left(line: Timeline, cause: Cause) -> dict[CodePlace, list[Piece]]:
    """Return the pieces of one cause that nobody has claimed, by place."""
    return grouped((line.place(piece.owner), piece) for piece in line.pieces if piece.cause == cause and not piece.claimed)


def _costliest(line: Timeline, works: Iterable[GpuEvent]) -> CodePlace:
    by_place = line.by_place(works)
    return max(by_place, key=lambda place: _sum(by_place[place]))


def _us(value: float) -> str:
    return duration(value * 1e-6)


def _sum(events: Iterable[HostEvent | GpuEvent]) -> float:
    return sum(event.dur for event in events)


# Transfer.


def pageable_copies(line: Timeline) -> Iterator[AdviceFinding]:
    """Large copies from or to memory that is not pinned."""
    copies = [work for work in line.gpu if work.kind == "copy"]
    pinned = [copy.size / copy.dur for copy in copies if "Pinned" in copy.name and copy.size > 1 << 20 and copy.dur > 0]
    best = max(pinned, default=PINNED)
    large = [copy for copy in copies if "Pageable" in copy.name and copy.size > SMALL_COPY]
    for place, group in line.by_place(large, FEWEST).items():
        times_us = [max(copy.dur, copy.call.dur if copy.call else 0.0) for copy in group]
        lost = sum(max(0.0, us - copy.size / best) for us, copy in zip(times_us, group, strict=True))
        lost += _claim_ops(line, [copy.call for copy in group if copy.call])[0]
        moved, to = sum(copy.size for copy in group), "to" if "HtoD" in group[0].name else "from"
        what = (
            f"{len(group)} copies of {size(moved / len(group))} {to} the GPU use pageable memory, and the host waits:"
            f" {rate(moved / sum(times_us) * 1e6, 'B/s')} where pinned memory reaches {rate(best * 1e6, 'B/s')}."
        )
        yield _finding(line, "pageable-copy", place, len(group), lost, what)


def loader_stalls(line: Timeline) -> Iterator[AdviceFinding]:
    """A DataLoader that the rest waits for."""
    notes = [event for event in line.trace.host if event.name.startswith(LOADER) and line.is_in(event)]
    if len(notes) < FEWEST:
        return
    lost = _claim(piece for piece in line.pieces if piece.cause == "loader")
    in_process = "SingleProcess" in notes[0].name
    if in_process and not line.gpu:  # workers share the cores, so they gain what is no operator; the longer of both remains
        loading = Cover(notes)
        lost -= sum(line.true_us(op.start, op.end) for op in line.ops if any(loading.within(op.start, op.end)))
        lost = PASSED_ON * (line.window_us - max(line.window_us - lost, lost / LOADER_WORKERS))
    who = "and the training process itself prepares it" if in_process else "although worker processes prepare it"
    what = f"The next batch takes {_us(_sum(notes) / len(notes))}, {who}."
    yield _finding(line, "loader-stall", line.place(notes[0]), len(notes), lost, what)


# Memory.


def allocations(line: Timeline) -> Iterator[AdviceFinding]:
    """Memory that is asked of the driver again and again."""
    calls = [event for event in line.calls if event.name.startswith(ALLOCATIONS)]
    if len(calls) < FEWEST:
        return
    lost = _claim(piece for piece in line.pieces if piece.cause == "allocation")
    names = ", ".join(sorted({event.name for event in calls}))[:80]
    what = f"The driver is asked to allocate or free memory {len(calls)} times ({names}): {_us(_sum(calls))} in total."
    yield _finding(line, "allocation", line.place(max(calls, key=lambda event: event.dur)), len(calls), lost, what)


def tensors_per_call(line: Timeline) -> Iterator[AdviceFinding]:
    """Tensors that are made anew in each call: of numbers of the host, or filled."""
    copied = {
        id(top(copy.call))
        for copy in line.gpu
        if copy.kind == "copy" and "HtoD (Pageable" in copy.name and copy.size <= SMALL_COPY and copy.call
    }
    made = [op for op in line.ops if id(op) in copied or op.name in _FACTORIES]
    for place, group in line.by_place(made, FEWEST).items():
        of_numbers = any(id(op) in copied for op in group)
        whole = of_numbers and place.is_exact and place.call in _MAKERS
        idle_us, work = _claim_ops(line, [op for op in line.ops_at[place[:3]] if line.place(op) == place] if whole else group)
        how = "from values on the host, and the host waits for each copy" if of_numbers else "allocated and filled"
        what = f"A tensor is created again {len(group)} times, {how}: {_us((idle_us + _sum(work)) / len(group))} each time."
        category: Category = "transfer" if of_numbers else "memory"
        yield _finding(line, "tensor-per-call", place, len(group), idle_us + _sum(work), what, category)
    for place, pieces in _left(line, "python").items():  # walking through a list takes longer than the operators within
        if len(pieces) >= FEWEST and (place.call in _MAKERS or place.call.endswith("Tensor")):
            lost = _claim(pieces)
            what = (
                f"A tensor is made of a Python list {len(pieces)} times, number by number: {_us(lost / len(pieces))} each time."
            )
            yield _finding(line, "tensor-per-call", place, len(pieces), lost, what)


def growing_cats(line: Timeline) -> Iterator[AdviceFinding]:
    """A tensor that grows by concatenation or padding, so that each step copies all that there is. The growing time shows it."""
    for place, ops in line.by_place([op for op in line.ops if op.name in _CATS], 12).items():
        times_us = [_sum(line.work_of.get(id(op), ())) if line.gpu else line.true_us(op.start, op.end) for op in ops]
        third = len(ops) // 3
        first, middle, last = (statistics.median(part) for part in (times_us[:third], times_us[third:-third], times_us[-third:]))
        if not first < middle < last or last < 1.5 * first:
            continue
        _claim_ops(line, ops)
        lost = sum(times_us) - min(times_us) * len(ops)
        how = "padding" if ops[0].name == "aten::pad" else "torch.cat"
        what = f"A tensor grows by {how} {len(ops)} times, and each copies it whole: {_us(first)} at first, {_us(last)} at last."
        yield _finding(line, "growing-cat", place, len(ops), lost, what)


# Dispatch: many calls where one would do.


def gemm_loops(line: Timeline) -> Iterator[AdviceFinding]:
    """Products of parts of tensors, one by one."""
    runs: dict[CodePlace, list[HostEvent]] = defaultdict(list)
    for fits, group in itertools.groupby(line.ops, lambda op: op.name in _PRODUCTS or op.name in _BESIDE):
        run = [*group] if fits else []
        products = [one for one in run if one.name in _PRODUCTS]
        if len(products) >= 4 and sum(one.name in _TAKES for one in run) >= len(products) // 2:
            runs[line.place(products[0])] += run
    for place, ops in runs.items():
        products = [op for op in ops if op.name in _PRODUCTS]
        idle_us, work = _claim_ops(line, ops)
        lost = idle_us + sum(one.dur * (1 - one.fill) for one in work)
        if not line.gpu:  # the products themselves remain
            lost -= sum(line.true_us(op.start, op.end) for op in products)
        each = _us(lost / len(products))
        what = f"{len(products)} matrix products one by one, each of a part of a larger tensor: {each} lost at each."
        yield _finding(line, "gemm-loop", place, len(products), lost, what)


def small_batches(line: Timeline) -> Iterator[AdviceFinding]:
    """A network that is called on a few rows at a time. A CPU is busy with these already."""
    if not line.gpu:
        return
    few: dict[tuple[str, int, str], list[HostEvent]] = defaultdict(list)
    rows: dict[tuple[str, int, str], int] = {}
    for event in line.trace.host:
        if event.kind == "op" and event.name in ("aten::mm", "aten::addmm") and line.is_in(event):
            shapes = [shape for shape in event.shapes if len(shape) == 2][-2:]
            if len(shapes) == 2 and 0 < shapes[0][0] <= FEW_ROWS and math.prod(shapes[1]) >= LEAST_WEIGHTS:
                where = line.place(event)[:3]
                few[where].append(event)
                rows[where] = shapes[0][0]
    for where, products in few.items():
        if len(products) < 8:
            continue
        idle_us, work = _claim_ops(line, line.ops_at.get(where, ()))
        lost = (idle_us + _sum(work)) * (1 - rows[where] / USUAL_BATCH)
        what = f"{len(products)} matrix products of {plural(rows[where], 'row')}: the weights are read again for each."
        yield _finding(line, "small-batch", line.place(products[0]), len(products), lost, what)


def indexing_loops(line: Timeline) -> Iterator[AdviceFinding]:
    """A loop of Python over the rows of a tensor."""
    runs: dict[CodePlace, list[HostEvent]] = defaultdict(list)
    run: list[HostEvent] = []
    since = 0
    for op in (*line.ops, None):
        is_select = op is not None and op.name == "aten::select"
        if op is not None and id(op) not in line.claimed and (is_select or (run and since < 8)):
            since = 0 if is_select else since + 1
            run.append(op)
            continue
        selects = [one for one in run if one.name == "aten::select"]
        if len(selects) >= 10 and line.true_us(run[0].start, run[-1].end) < 20 * LONG_US * len(selects):
            runs[line.place(selects[0])] += run
        run, since = [], 0
    counts = {place: sum(op.name == "aten::select" for op in ops) for place, ops in runs.items()}
    for ops in _after_parts(line):
        (_, walked), repeated = Counter((op.name, line.place(op)) for op in ops).most_common(1)[0]
        if repeated >= 32 and line.true_us(ops[0].start, ops[-1].end) < 20 * LONG_US * repeated:
            runs[walked] += ops
            counts[walked] = counts.get(walked, 0) + repeated
    for place, ops in runs.items():
        idle_us, work = _claim_ops(line, ops)
        count = counts[place]
        lost = 0.9 * (idle_us + _sum(work))
        what = f"A Python loop takes {count} rows of a tensor one by one: {_us(lost / count)} lost at each."
        yield _finding(line, "indexing-loop", place, count, lost, what)


def _after_parts(line: Timeline) -> Iterator[list[HostEvent]]:
    """Yield the operators between one that gives all parts of a tensor and the next such one."""
    run: list[HostEvent] | None = None
    for op in (*line.ops, None):
        if op is None or op.name in _PARTS:
            if run:
                yield run
            run = []
        elif run is not None and id(op) not in line.claimed:
            run.append(op)


def elementwise_chains(line: Timeline) -> Iterator[AdviceFinding]:
    """Elementwise kernels in a row, each of which reads and writes a large tensor."""

    def function_of(work: GpuEvent) -> tuple[str, str] | None:
        if work.kind != "kernel" or work.dur < LONG_US or not _is_free(line, work) or not _POINTWISE.search(work.name):
            return None
        place = line.place(work)
        return place.file, place.function

    rows = ((where, [*group]) for where, group in itertools.groupby(line.gpu, function_of))
    for alike in grouped((where, row) for where, row in rows if where and len(row) >= FEWEST).values():
        kernels = [work for one in alike for work in one]
        line.claimed.update(map(id, kernels))
        lost = sum(_sum(one) - max(work.dur for work in one) for one in alike)
        what = (
            f"{len(kernels) / len(alike):.0f} elementwise kernels in a row, {plural(len(alike), 'time')}: each reads and writes"
            f" the whole tensor, {_us(_sum(kernels) / len(kernels))} on average."
        )
        yield _finding(line, "elementwise-chain", line.place(kernels[0]), len(kernels), lost, what)


# Compute.


def float32_products(line: Timeline) -> Iterator[AdviceFinding]:
    """Products of float32 at full precision on a GPU that has TF32."""
    if (0, 0) < line.trace.capability < (8, 0):
        return
    peak = highest(line.trace.gpu_name).flops_per_s.get("fp32", 0.0) * 1e-6
    long = (work for work in line.gpu if work.kind == "kernel" and work.dur >= 2 * LONG_US and _is_free(line, work))
    slow = [work for work in long if _is_full_float32(work, peak)]
    if len(slow) < FEWEST:
        return
    place = _costliest(line, slow)
    what = f"{len(slow)} matrix products in float32 without TF32 take {_us(_sum(slow))}."
    yield _finding(line, "fp32-matmul", place, len(slow), _sum(slow) * (1 - 1 / TF32_GAIN), what)


def _is_full_float32(work: GpuEvent, peak: float) -> bool:
    """Return whether a kernel multiplies float32 without TF32: by its name, else by its rate beside the peak in FLOP a µs."""
    op = work.call.parent if work.call else None
    if _OTHERWISE.search(work.name) or op is None or op.kind != "op":
        return False
    if _FP32.search(work.name):
        return True
    shapes = [shape for shape in op.shapes if len(shape) >= 2][-2:]
    if op.name not in _PRODUCTS or op.types[:1] != ("float",) or len(shapes) < 2:
        return False
    return 0.4 * peak < 2.0 * math.prod(shapes[0]) * shapes[1][-1] / work.dur < 1.05 * peak


def double_precision(line: Timeline) -> Iterator[AdviceFinding]:
    """Work on float64 that comes from NumPy, or from one operand among float32; on a GPU, where it is slow, any."""
    if not line.gpu:
        yield from _double_on_cpu(line)
        return
    launched = [(work, work.call.parent) for work in line.gpu if work.kind == "kernel" and work.call and work.call.parent]
    wide = [work for work, op in launched if _is_free(line, work) and _has_double(op)]
    if len(wide) < FEWEST:
        return
    place = _costliest(line, wide)
    what = f"{len(wide)} kernels work on float64, which often comes from NumPy: {_us(_sum(wide))}."
    yield _finding(line, "double-precision", place, len(wide), _sum(wide) / 2, what)


def _double_on_cpu(line: Timeline) -> Iterator[AdviceFinding]:
    hosts = line.trace.host
    enters = any(event.kind == "python" and _FROM_NUMPY.match(event.name) for event in hosts)
    mixes = any(_has_double(op) and "float" in op.types for op in hosts if op.kind == "op")
    wide = [op for op in line.ops if id(op) not in line.claimed and _has_double(op)]
    if len(wide) < FEWEST or not (enters or mixes):
        return
    by_place = {place: _claim_ops(line, ops)[0] for place, ops in line.by_place(wide).items()}
    us = sum(by_place.values())
    what = f"{len(wide)} operators work on float64, which {'comes from NumPy' if enters else 'one operand brings in'}: {_us(us)}."
    yield _finding(line, "double-precision", max(by_place, key=by_place.__getitem__), len(wide), us / 2, what)


def _has_double(op: HostEvent) -> bool:
    """Return whether a tensor is float64; a number of Python has that type and no size."""
    return any(kind == "double" and shape for kind, shape in zip(op.types, op.shapes, strict=False))


# What is left: waits, and a host that is too slow.


def waits(line: Timeline) -> Iterator[AdviceFinding]:
    """Waits of the host after which the GPU has nothing to do."""
    launching = _left(line, "dispatch")
    for place, pieces in _left(line, "sync").items():
        times = len({id(piece.owner) for piece in pieces})
        if times < FEWEST:
            continue
        also = launching.get(place, []) if place.is_exact and place.call in _READS else []
        lost = _claim((*pieces, *also))
        called = f"{place.call}()" if place.call else "An operator"
        what = f"{called} makes the host wait for the GPU, which then waits for the next launch: {_us(lost / times)} each time."
        yield _finding(line, "sync-in-loop", place, times, lost, what)


def host_gaps(line: Timeline) -> Iterator[AdviceFinding]:
    """Work of the host itself, for which the GPU waits."""
    for place, pieces in _left(line, "python").items() if line.gpu else ():
        if len(pieces) >= FEWEST:
            lost = _claim(pieces)
            called = place.call or place.function or "work"
            what = f"The GPU waits {len(pieces)} times for {called} on the host: {_us(lost / len(pieces))} each time."
            yield _finding(line, "host-gaps", place, len(pieces), lost, what)


def small_kernels(line: Timeline) -> Iterator[AdviceFinding]:
    """Launches that take longer than the kernels that they launch."""
    kernels = [work for work in line.gpu if work.kind == "kernel"]
    by_place = _left(line, "dispatch")
    if not by_place or not kernels or line.slower_host_us < PATTERNS["small-kernels"].least * line.window_us:
        return  # an operator that calls CUDA often costs the profiler more than the small ones that it was measured with
    place = max(by_place, key=lambda where: sum(piece.us for piece in by_place[where]))
    lost = _claim(piece for pieces in by_place.values() for piece in pieces)
    what = (
        f"{len(kernels)} kernels of {_us(_sum(kernels) / len(kernels))} on average: the GPU is done with each before the host"
        " launches the next."
    )
    yield _finding(line, "small-kernels", place, len(kernels), lost, what)


# Correctness.


def unfinished_copies(line: Timeline) -> Iterator[AdviceFinding]:
    """Results that are copied to pinned memory, and for which nothing ever waits."""
    copies = [work for work in line.gpu if work.kind == "copy" and "-> Pinned" in work.name and work.call]
    waiting = ("Synchronize", "EventQuery", "StreamQuery")
    ends = [event.end for event in line.trace.host if event.kind == "call" and any(word in event.name for word in waiting)]
    never = [copy for copy in copies if copy.end > max(ends, default=0.0)]
    for place, group in line.by_place(never, FEWEST).items():
        what = f"{len(group)} results are copied to the host without waiting, and the trace shows no wait after them."
        yield _finding(line, "unfinished-copy", place, len(group), 0.0, what)


RULES: tuple[Rule, ...] = (
    *(pageable_copies, loader_stalls, allocations, tensors_per_call, growing_cats, gemm_loops, small_batches, indexing_loops),
    *(elementwise_chains, float32_products, double_precision, waits, host_gaps, small_kernels, unfinished_copies),
)
"""In the order in which they claim time."""
