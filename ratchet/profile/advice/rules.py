"""The rules: each names one antipattern in a timeline, where it is, and the time that it costs.

`ratchet.profile.advice` calls `findings`. A moment is lost once: the rules stand from the particular to the general, and each claims
the pieces of time that it explains. Pure. Times are microseconds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from ratchet.profile.advice.timeline import ALLOCATIONS, LOADER, NOWHERE, Cause, Piece, Place, Timeline, grouped, top
from ratchet.profile.advice.trace import Event
from ratchet.records.advice import AdviceFinding, Category, Where
from ratchet.units import duration, percent, plural, rate, size

FLOOR, FLOOR_US = 0.05, 100.0
"""Smallest share of the steady part, and smallest time, that is a finding."""
SMALL_COPY = 1 << 16
"""Bytes up to which a copy costs its call, not its size."""
PINNED = 2.5e4
"""Bytes a µs that pinned memory reaches on PCIe 4.0, where the trace has no such copy to compare with."""
FEW_ROWS = 8
"""Rows of a product that is read for its weights alone."""
USUAL_BATCH = 32
LOADER_WORKERS = 4
_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv"})
_CONVOLUTIONS = ("aten::conv", "aten::cudnn_convolution", "aten::_convolution")
_FACTORIES = frozenset(
    f"aten::{name}{like}"
    for name in ("zeros", "ones", "full", "rand", "randn", "randint", "arange", "linspace", "eye", "scalar_tensor")
    for like in ("", "_like")
)
_MAKERS = ("tensor", "as_tensor", "scalar_tensor", "asarray")
_TAKES = frozenset({"aten::select", "aten::slice", "aten::unbind", "aten::split", "aten::chunk", "aten::narrow"})
_BESIDE = _TAKES | {"aten::copy_", "aten::fill_", "aten::as_strided", "aten::view", "aten::unsqueeze", "aten::squeeze", "aten::t"}
_BESIDE |= {"aten::transpose", "aten::reshape", "aten::empty", "aten::empty_like", "aten::detach", "aten::alias", "aten::stack"}
_FP32 = re.compile(r"(?<![a-z])sgemm|simt_sgemm|f32f32_f32f32_f32|_ffma_|gemmSN|gemm_fp32|sgemm_\d|implicit_convolve_sgemm")
_TF32 = re.compile(r"tf32|tensorop|s1688|h884|_bf16|_f16", re.IGNORECASE)
_POINTWISE = re.compile(r"(?:vectorized|unrolled|(?<![a-z_])|legacy_)_?elementwise_kernel")

Rule = Callable[[Timeline], Iterator[AdviceFinding]]


def findings(line: Timeline) -> list[AdviceFinding]:
    """Return what costs at least `FLOOR` and `FLOOR_US`, the costliest first; results that may be wrong always, at the end."""
    found = [finding for rule in RULES for finding in rule(line)]
    kept = [one for one in found if one.category == "correctness" or (one.share >= FLOOR and one.lost_us >= FLOOR_US)]
    return sorted(kept, key=lambda one: -one.lost_us)


def _finding(
    line: Timeline,
    pattern: str,
    category: Category,
    place: Place,
    times: int,
    lost_us: float,
    what: str,
    do: str,
    gain: str,
    quick_win: str | None = None,
) -> AdviceFinding:
    lost_us = min(max(lost_us, 0.0), line.window_us)
    where = None
    if place.file:
        where = Where(file=place.file, line=place.line, is_exact=place.is_exact, function=place.function, call=place.call)
    share = lost_us / line.window_us if line.window_us else 0.0
    return AdviceFinding(
        pattern=pattern, category=category, where=where, times=times, lost_us=lost_us, share=share,
        what=what, do=do, gain=gain, quick_win=quick_win,
    )  # fmt: skip


def _claim(line: Timeline, wanted: Callable[[Piece], bool]) -> float:
    """Claim the pieces that are wanted and nobody has claimed. Return their time."""
    us = 0.0
    for piece in line.pieces:
        if not piece.claimed and wanted(piece):
            piece.claimed = True
            us += piece.us
    return us


def _claim_ops(line: Timeline, ops: Iterable[Event]) -> tuple[float, list[Event]]:
    """Claim outermost operators. Return the time that the GPU had nothing to do because of them, and their work on it."""
    fresh = {id(top(op)) for op in ops} - line.claimed
    line.claimed |= fresh
    idle_us = _claim(line, lambda piece: piece.owner is not None and id(top(piece.owner)) in fresh)
    return idle_us, [work for work in line.gpu if work.call is not None and id(top(work.call)) in fresh]


def _us(value: float) -> str:
    return duration(value * 1e-6)


def _sum(events: Iterable[Event]) -> float:
    return sum(event.dur for event in events)


# Transfer.


def pageable_copies(line: Timeline) -> Iterator[AdviceFinding]:
    """Large copies from or to memory that is not pinned."""
    copies = [event for event in line.gpu if event.kind == "copy"]
    pinned = [copy.size / copy.dur for copy in copies if "Pinned" in copy.name and copy.size > 1 << 20 and copy.dur > 0]
    best = max(pinned, default=PINNED)
    large = [copy for copy in copies if "Pageable" in copy.name and copy.size > SMALL_COPY]
    for place, group in grouped(large, line.place).items():
        spent = sum(max(copy.dur, copy.call.dur if copy.call else 0.0) for copy in group)
        lost = sum(max(0.0, max(copy.dur, copy.call.dur if copy.call else 0.0) - copy.size / best) for copy in group)
        lost += _claim_ops(line, [copy.call for copy in group if copy.call])[0]
        moved = sum(copy.size for copy in group)
        to_gpu = "HtoD" in group[0].name
        yield _finding(
            line, "pageable-copy", "transfer", place, len(group), lost,
            f"{len(group)} copies of {size(moved / len(group))} {'to' if to_gpu else 'from'} the"
            f" GPU use pageable memory: {rate(moved / spent * 1e6, 'B/s')}, and the host waits.",
            "Pin the source (pin_memory=True in the DataLoader, or tensor.pin_memory()) and copy with non_blocking=True."
            if to_gpu
            else "Copy into a pinned buffer that is kept (torch.empty(…, pin_memory=True).copy_(y, non_blocking=True)), and wait for"
            " an event before reading it.",
            f"2 to 6 times faster copies (pinned: {rate(best * 1e6, 'B/s')}); more where they overlap with kernels",
            "Enable Pinned Memory in PyTorch",
        )  # fmt: skip


def loader_stalls(line: Timeline) -> Iterator[AdviceFinding]:
    """A DataLoader that the rest waits for."""
    notes = [event for event in line.trace.host if event.name.startswith(LOADER) and line.is_in(event)]
    if len(notes) < 3:
        return
    lost = _claim(line, lambda piece: piece.cause == "loader")
    in_process = "SingleProcess" in notes[0].name
    if in_process and not line.gpu:  # with workers, the longer of both remains
        lost = line.window_us - max(line.window_us - lost, lost / LOADER_WORKERS)
    yield _finding(
        line, "loader-stall", "transfer", line.place(notes[0]), len(notes), lost,
        f"The next batch takes {_us(_sum(notes) / len(notes))}"
        + (", and the training process itself prepares it." if in_process else ", although worker processes prepare it."),
        f"Use DataLoader(num_workers={LOADER_WORKERS}, pin_memory=True, persistent_workers=True)."
        if in_process
        else "Use more workers or a larger prefetch_factor, or make samples cheaper.",
        "the loader's time, as far as workers can work meanwhile",
        "Enable Pinned Memory in PyTorch",
    )  # fmt: skip


def tensors_per_call(line: Timeline) -> Iterator[AdviceFinding]:
    """Tensors that are made anew in each call: from numbers of Python, or filled."""
    small = {
        id(top(copy.call))
        for copy in line.gpu
        if copy.kind == "copy" and "HtoD (Pageable" in copy.name and copy.size <= SMALL_COPY and copy.call
    }
    made = [op for op in line.ops if id(op) in small or op.name in _FACTORIES]
    for place, group in grouped(made, line.place).items():
        copied = any(id(op) in small for op in group)
        whole = copied and place.is_exact and place.call in _MAKERS  # that call makes the tensor and does nothing else
        idle_us, work = _claim_ops(line, [op for op in line.ops if line.place(op) == place] if whole else group)
        lost = idle_us + _sum(work)
        yield _finding(
            line, "tensor-per-call", "transfer" if copied else "memory", place, len(group), lost,
            f"A tensor is made anew {plural(len(group), 'time')}"
            + (" from numbers of the host, each with a copy that the host waits for." if copied else ", allocated and filled."),
            "Make it once, outside of the loop, and keep it on the device."
            if copied
            else "Make it once, and write results into it with out= or an in-place operator.",
            "1.5 to 2 times in total, where this dominates; this time, at most",
            "Preallocate Tensors",
        )  # fmt: skip


# Dispatch: many calls where one would do.


def _runs(line: Timeline, ops: Sequence[Event], wanted: Callable[[Event], bool]) -> Iterator[list[Event]]:
    """Yield sequences of operators in which those that are wanted follow each other, apart from taking and putting back parts."""
    run: list[Event] = []
    place, count = NOWHERE, 0
    for op in ops:
        here = line.place(op)
        if wanted(op) and (not count or here[:3] == place[:3] or not here.is_exact or here[0::2] == place[0::2]):
            place, count = here, count + 1
            run.append(op)
        elif op.name in _BESIDE and not wanted(op):
            run.append(op)
        else:
            yield run
            run, count = [], 0
            if wanted(op):
                run, place, count = [op], here, 1
    yield run


def _product(op: Event) -> Event | None:
    """Return the operator itself or the one inside it that multiplies matrices, by name alone."""
    return op if op.name in _PRODUCTS or op.name in ("aten::matmul", "aten::linear") else None


def gemm_loops(line: Timeline) -> Iterator[AdviceFinding]:
    """Products of parts of tensors, one by one."""
    runs: dict[Place, list[list[Event]]] = defaultdict(list)
    for run in _runs(line, line.ops, lambda op: _product(op) is not None):
        products = [op for op in run if _product(op)]
        if len(products) >= 4 and sum(op.name in _TAKES for op in run) >= len(products) // 2:
            runs[line.place(products[0])].append(run)
    for place, group in runs.items():
        ops = [op for run in group for op in run]
        products = [op for op in ops if _product(op)]
        idle_us, work = _claim_ops(line, ops)
        lost = idle_us + sum(one.dur * (1 - one.fill) for one in work)
        if not line.gpu:  # the products themselves remain
            lost -= sum(line.true_us(op.start, op.end) for op in products)
        yield _finding(
            line, "gemm-loop", "dispatch", place, len(products), lost,
            f"{len(products)} matrix products one by one, each of a part of a larger tensor: {_us(lost / len(products))} lost at each.",
            "Multiply all at once: torch.bmm(A, B), or torch.matmul on stacked tensors.",
            "10 to 31 times for launches that are this small",
            "Use Batched Operations",
        )  # fmt: skip


def small_batches(line: Timeline) -> Iterator[AdviceFinding]:
    """A network that is called on a few rows at a time."""
    few: dict[tuple[Place, tuple[tuple[int, ...], ...]], list[Event]] = defaultdict(list)
    for event in line.trace.host:
        if event.kind == "op" and event.name in ("aten::mm", "aten::addmm") and line.is_in(event):
            shapes = tuple(shape for shape in event.shapes if len(shape) == 2)[-2:]
            if len(shapes) == 2 and shapes[0][0] <= FEW_ROWS and shapes[1][0] * shapes[1][1] >= 1 << 16:
                few[line.place(event), shapes].append(event)
    places = {(place.file, place.line, place.function): rows[0][0] for (place, rows), group in few.items() if len(group) >= 8}
    for where, rows in places.items():
        ops = [op for op in line.ops if line.place(op)[:3] == where]
        products = [event for (place, _), group in few.items() if place[:3] == where for event in group]
        idle_us, work = _claim_ops(line, ops)
        spent = idle_us + _sum(work)
        yield _finding(
            line, "small-batch", "compute", line.place(products[0]), len(products), spent * (1 - rows / USUAL_BATCH),
            f"{plural(len(products), 'matrix product')} with {plural(rows, 'row')}: the weights are read again for each.",
            f"If the calls do not depend on each other, stack their inputs: a batch of {USUAL_BATCH} takes hardly longer than one of"
            f" {rows}.",
            "2 to 8.5 times more products a second",
            "Increase Batch Size",
        )  # fmt: skip


def indexing_loops(line: Timeline) -> Iterator[AdviceFinding]:
    """A loop of Python over the rows of a tensor."""
    runs: dict[Place, list[list[Event]]] = defaultdict(list)
    run: list[Event] = []
    since = 0
    for op in (*line.ops, None):
        if op is not None and (op.name == "aten::select" or (run and since < 8)):
            since = 0 if op.name == "aten::select" else since + 1
            run.append(op)
            continue
        selects = [one for one in run if one.name == "aten::select" and id(one) not in line.claimed]
        if len(selects) >= 10 and run[-1].end - run[0].start < 200.0 * len(selects):
            runs[line.place(selects[0])].append(run)
        run, since = [], 0
    for place, group in runs.items():
        ops = [op for one in group for op in one]
        idle_us, work = _claim_ops(line, ops)
        lost = idle_us + _sum(work)
        count = sum(op.name == "aten::select" for op in ops)
        yield _finding(
            line, "indexing-loop", "dispatch", place, count, lost * 0.9,
            f"A Python loop takes {plural(count, 'row')} of a tensor one by one, {_us(lost / count)} each.",
            "Work on the whole tensor at once: an operator along a dimension, torch.arange, gather, index_put_.",
            "10 times and more of this time",
            "Use Batched Operations",
        )  # fmt: skip


def elementwise_chains(line: Timeline) -> Iterator[AdviceFinding]:
    """Elementwise kernels in a row, each of which reads and writes a large tensor."""
    chains: dict[tuple[str, str], list[list[Event]]] = defaultdict(list)
    chain: list[Event] = []
    for work in (*line.gpu, None):
        if work is not None and work.kind == "kernel" and _POINTWISE.search(work.name) and work.dur >= 10.0:
            if not chain or line.place(work)[0::2] == line.place(chain[0])[0::2]:
                chain.append(work)
                continue
        if len(chain) >= 3:
            place = line.place(chain[0])
            chains[place.file, place.function].append(chain)
        chain = [work] if work is not None and work.kind == "kernel" and _POINTWISE.search(work.name) and work.dur >= 10.0 else []
    for group in chains.values():
        kernels = [work for one in group for work in one]
        lost = sum(_sum(one) - max(work.dur for work in one) for one in group)
        yield _finding(
            line, "elementwise-chain", "dispatch", line.place(kernels[0]), len(kernels), lost,
            f"{len(kernels) / len(group):.0f} elementwise kernels in a row, {plural(len(group), 'time')}, {_us(_sum(kernels) / len(kernels))}"
            " each: every one reads and writes the whole tensor.",
            "Fuse them: torch.compile on this function, one operator that does it all, or a Triton kernel.",
            f"{_sum(kernels) / max(_sum(kernels) - lost, 1e-9):.1f} times for these kernels, if one pass over memory is left",
            "CUDA Graphs (Static Workloads)" if _sum(kernels) / len(kernels) < 10 else None,
        )  # fmt: skip


# Memory.


def allocations(line: Timeline) -> Iterator[AdviceFinding]:
    """Memory that is asked of the driver again and again."""
    calls = [event for event in line.calls if event.name.startswith(ALLOCATIONS)]
    if len(calls) < 3:
        return
    lost = _claim(line, lambda piece: piece.cause == "allocation")
    costliest = max(calls, key=lambda event: event.dur)
    names = ", ".join(dict.fromkeys(event.name for event in calls))
    yield _finding(
        line, "allocation", "memory", line.place(costliest), len(calls), lost,
        f"The driver is asked for memory or given it back {plural(len(calls), 'time')} ({names[:80]}), {_us(_sum(calls))} in all.",
        "Do not call torch.cuda.empty_cache() in the loop; keep pinned buffers and results, or set"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where sizes vary.",
        "this time, whole",
        "Preallocate Tensors",
    )  # fmt: skip


# Compute.


def float32_products(line: Timeline) -> Iterator[AdviceFinding]:
    """Products of float32 at full precision on a GPU that has TF32."""
    if line.trace.capability and line.trace.capability < (8, 0) and line.trace.capability != (0, 0):
        return
    slow = [
        work for work in line.gpu
        if work.kind == "kernel" and work.dur >= 20.0 and _FP32.search(work.name) and not _TF32.search(work.name)
    ]  # fmt: skip
    if len(slow) < 3:
        return
    by_place = grouped(slow, line.place, 1)
    place = max(by_place, key=lambda where: _sum(by_place[where]))
    yield _finding(
        line, "fp32-matmul", "compute", place, len(slow), _sum(slow) * (1 - 1 / 3),
        f"{plural(len(slow), 'matrix product')} in float32 without TF32 take {_us(_sum(slow))}.",
        'Allow TF32 (torch.set_float32_matmul_precision("high")), or use bfloat16 under torch.autocast; check the tolerance of results.',
        "3 to 7 times for these kernels",
    )  # fmt: skip


def double_precision(line: Timeline) -> Iterator[AdviceFinding]:
    """Kernels that work on float64."""
    wide = [
        work for work in line.gpu
        if work.kind == "kernel" and work.call and work.call.parent and work.call.parent.kind == "op"
        and "double" in work.call.parent.types
    ]  # fmt: skip
    if len(wide) < 3:
        return
    by_place = grouped(wide, line.place, 1)
    place = max(by_place, key=lambda where: _sum(by_place[where]))
    yield _finding(
        line, "double-precision", "compute", place, len(wide), _sum(wide) / 2,
        f"{plural(len(wide), 'kernel')} work on float64, which often comes from NumPy.",
        "Convert to float32 where the data enters: torch.from_numpy(a).float(), or dtype=torch.float32.",
        "2 times for these kernels, far more for products",
    )  # fmt: skip


# What is left: waits, and a host that is too slow.


def waits(line: Timeline) -> Iterator[AdviceFinding]:
    """Waits of the host after which the GPU has nothing to do."""
    for place, pieces in _left(line, "sync").items():
        if len({id(piece.owner) for piece in pieces}) < 3:
            continue
        lost = _claim(line, lambda piece, wanted=frozenset(map(id, pieces)): id(piece) in wanted)  # type: ignore[misc]
        called = f".{place.call}()" if place.call in ("item", "cpu", "tolist", "nonzero") else place.call or "an operator"
        yield _finding(
            line, "sync-in-loop", "sync", place, len({id(piece.owner) for piece in pieces}), lost,
            f"{called} makes the host wait for the GPU, which then waits for the next launch: {_us(lost / len(pieces))} each.",
            "Keep the value on the GPU, read it every n steps or with an event and a non_blocking copy into pinned memory; instead of"
            " masks, which need their size, use torch.where.",
            "the GPU's idle time after each wait",
            "CUDA Graphs (Static Workloads)",
        )  # fmt: skip


def host_gaps(line: Timeline) -> Iterator[AdviceFinding]:
    """Work of the host itself, for which the GPU waits."""
    if not line.gpu:
        return
    for place, pieces in _left(line, "python").items():
        if len(pieces) < 3:
            continue
        lost = _claim(line, lambda piece, wanted=frozenset(map(id, pieces)): id(piece) in wanted)  # type: ignore[misc]
        yield _finding(
            line, "host-gaps", "dispatch", place, len(pieces), lost,
            f"The GPU waits {plural(len(pieces), 'time')} for {place.call or place.function or 'work'} on the host,"
            f" {_us(lost / len(pieces))} each.",
            "Do it before the loop, in a DataLoader worker or thread one step ahead, or on the GPU.",
            "the GPU's idle time, as far as the host's work fits beside the kernels",
        )  # fmt: skip


def small_kernels(line: Timeline) -> Iterator[AdviceFinding]:
    """Launches that take longer than the kernels that they launch."""
    by_place = _left(line, "dispatch")
    if not by_place or (not line.gpu and len(line.ops) < 1000):
        return
    lost = _claim(line, lambda piece: piece.cause == "dispatch")
    place = max(by_place, key=lambda where: sum(piece.us for piece in by_place[where]))
    kernels = [work for work in line.gpu if work.kind == "kernel"]
    if not kernels:  # on a CPU an operator's own time is no loss
        return
    yield _finding(
        line, "small-kernels", "dispatch", place, len(kernels), lost,
        f"{plural(len(kernels), 'kernel')} of {_us(_sum(kernels) / len(kernels))} on average: the host launches them more slowly than"
        " the GPU carries them out.",
        "Fuse them with torch.compile, capture the step in a CUDA graph (torch.cuda.graph, or mode=\"reduce-overhead\"), or give each"
        " call more work.",
        "1.1 to 2 times end to end; up to the launches' whole time",
        "CUDA Graphs (Static Workloads)",
    )  # fmt: skip


def _left(line: Timeline, cause: Cause) -> dict[Place, list[Piece]]:
    """Return the pieces of one cause that nobody has claimed, by place."""
    found: dict[Place, list[Piece]] = defaultdict(list)
    for piece in line.pieces:
        if piece.cause == cause and not piece.claimed:
            found[line.place(piece.owner)].append(piece)
    return found


# Correctness.


def unfinished_copies(line: Timeline) -> Iterator[AdviceFinding]:
    """Results that are copied to pinned memory, and for which nothing ever waits."""
    copies = [work for work in line.gpu if work.kind == "copy" and "-> Pinned" in work.name and work.call]
    waiting = ("Synchronize", "EventQuery", "StreamQuery")
    ends = [event.end for event in line.trace.host if event.kind == "call" and any(word in event.name for word in waiting)]
    last = max(ends, default=0.0)
    never = [copy for copy in copies if copy.end > last]
    for place, group in grouped(never, line.place).items():
        yield _finding(
            line, "unfinished-copy", "correctness", place, len(group), 0.0,
            f"{len(group)} results are copied to the host without waiting, and the trace shows no wait after them.",
            "Record an event after the copy, and synchronise with it before the host reads the result.",
            "none: the results may be wrong without it",
        )  # fmt: skip


RULES: tuple[Rule, ...] = (
    pageable_copies, loader_stalls, allocations, tensors_per_call, gemm_loops, small_batches, indexing_loops,
    elementwise_chains, float32_products, double_precision, waits, host_gaps, small_kernels, unfinished_copies,
)  # fmt: skip
"""In the order in which they claim time."""
