"""Rules about what a kernel does: its arithmetic, and its traffic with global memory.

Matrix units, precision, divergence, more instructions than before; coalescing, more bytes than before, cache hits, too few bytes
in flight. `diagnose` applies `CHANGES` to both sides of a launch and `STATES` to the head. Pure.
"""

from __future__ import annotations

from ratchet.core import units
from ratchet.core.records.profile import KernelProfile
from ratchet.explain.diagnosis import rule as at
from ratchet.explain.diagnosis.rule import (
    Cause,
    Change,
    LaunchPair,
    State,
    all_flops,
    blocks,
    busiest_percent,
    global_sectors,
    noticed,
    points,
    same_way,
    tensor_flops,
    whole,
    worst_stall,
)
from ratchet.explain.metrics import SECTOR_BYTES, THREADS_PER_INSTRUCTION

TENSOR_RATE = 8.0
"""Matrix units are at least this many times as fast as the rest; the factor only has to be large."""
FP64_RATE = 8.0
"""Double precision costs about this many times as much with its conversions; far more on chips without fast units for it."""

TENSOR_CORES = Cause(
    "tensor cores",
    0.98,
    "Tensor cores do matrix products at least eight times as fast as the other units.",
    "Give the product operands that tensor cores take (bf16, fp16, fp8, or tf32 in place of IEEE float32), in tiles of at least"
    " 16 on each side; in PyTorch, see torch.set_float32_matmul_precision.",
    hides=("instructions", "precision", "steps"),
)
PRECISION = Cause(
    "precision",
    0.96,
    "Most chips have few units for double precision, and every conversion takes an instruction of its own.",
    "Look for literals without an f (0.5 for 0.5f), double accumulators, and functions of the double library.",
    hides=("instructions",),
)
DIVERGENCE = Cause(
    "divergence",
    0.94,
    "A warp whose threads branch differently runs every branch, with the other threads idle.",
    "Give whole warps the same kind of work: sort or group the elements, move the branch out of the loop, or compute both sides"
    " and select.",
    hides=("instructions",),
)
STEPS = Cause(
    "steps",
    0.6,
    "A loop over smaller tiles has more iterations, and each one adds instructions.",
    "Go back to the larger inner tile and its stages (BLOCK_N or BLOCK_K, NUM_STAGES), or tune them on this GPU.",
    hides=("instructions",),
)
INSTRUCTIONS = Cause(
    "instructions",
    0.5,
    "Where the SM is busy, the time depends on how many instructions it issues.",
    "Compare the machine code (ncu's source page): index arithmetic, lost vectorisation, unrolling, conversions.",
)


def tensor_changed(pair: LaunchPair) -> Change | None:
    """Find work that matrix units do on one side only."""
    share = pair.both(_tensor_percent)
    if share is None or share.most - share.least < 50:
        return None
    text = f"Tensor cores do {share.text(points)} of the arithmetic"
    if busy := pair.both("tensor_percent"):
        text += f", and are {busy.text(points)} busy"
    return Change(TENSOR_CORES, f"{text}.", TENSOR_RATE if share.head < share.reference else 1 / TENSOR_RATE)


def tensor_unused(kernel: KernelProfile) -> State | None:
    """Find much arithmetic on little data through shared memory, as in products of matrices, without matrix units."""
    flops, moved = all_flops(kernel), kernel.dram_bytes
    if not moved or flops / moved < at.MATRIX_INTENSITY or tensor_flops(kernel) > 0 or not kernel.shared_wavefronts:
        return None
    if (kernel.sm_percent or 0) < at.THROUGHPUT_PERCENT or (kernel.instructions or 0) > 64 * kernel.shared_wavefronts:
        return None  # no tiles in shared memory: no product of matrices
    text = f"{units.rate(flops / moved, 'FLOP/B')} of arithmetic, and the tensor cores do none of it."
    return State(TENSOR_CORES, text, 0.7, "low")


def precision_changed(pair: LaunchPair) -> Change | None:
    """Find double precision that the other side does not have, or has far less of."""
    double = pair.both(_double_flops)
    if double is None or not double.doubled:
        return None
    if double.most < 0.1 * all_flops(pair.head if double.head == double.most else pair.reference):
        return None
    factor = FP64_RATE if double.head > double.reference else 1 / FP64_RATE
    return Change(PRECISION, f"Operations in double precision {double.text(whole)}.", factor)


def precision_double(kernel: KernelProfile) -> State | None:
    """Find a tenth of the operations or more in double precision."""
    double, flops = _double_flops(kernel) or 0.0, all_flops(kernel)
    if not double or double < 0.1 * flops:
        return None
    text = f"{points(100 * double / flops)} of the operations are in double precision."
    return State(PRECISION, text, 0.5 * double / flops, "low")


def divergence_changed(pair: LaunchPair) -> Change | None:
    """Find a change in the active threads of a warp, where one side has few."""
    active = pair.both(_active_threads)
    if active is None or not active.factor or not noticed(active.factor) or active.least >= at.DIVERGENT_THREADS:
        return None
    text = f"Active threads in the average instruction {active.text('{:.1f}'.format)} of 32."
    return Change(DIVERGENCE, text, 1 / active.factor)


def divergence_present(kernel: KernelProfile) -> State | None:
    """Find warps with few active threads."""
    active = _active_threads(kernel)
    if active is None or active >= at.DIVERGENT_THREADS:
        return None
    busy = (kernel.sm_percent or 0) / 100
    return State(DIVERGENCE, f"The average instruction has {active:.1f} of 32 threads active.", (1 - active / 32) * busy)


def steps_changed(pair: LaunchPair) -> Change | None:
    """Find blocks that do the same operations with less in shared memory at a time, and need more instructions for it."""
    held, work = pair.both("shared_bytes"), pair.factor(tensor_flops)
    change = instructions_changed(pair)
    if held is None or work is None or change is None or blocks(pair.head) != blocks(pair.reference):
        return None
    if abs(work - 1) > at.SAME_WORK or not noticed(held.factor) or (held.head > held.reference) == (change.factor > 1):
        return None
    text = f"Each block holds {held.text(units.size)} in shared memory for the same products: {units.lowered(change.what)}"
    return Change(STEPS, text, change.factor)


def instructions_changed(pair: LaunchPair) -> Change | None:
    """Find more or fewer instructions, weighed by how busy the SM of the slower side is."""
    count, busy = pair.both("instructions"), pair.slower.sm_percent
    if count is None or busy is None or not count.factor or not noticed(count.factor):
        return None
    # Where the SM is hardly busy, the time does not go into instructions.
    return Change(INSTRUCTIONS, f"Instructions {count.text(whole)}.", count.factor ** (busy / 100))


def _tensor_percent(kernel: KernelProfile) -> float | None:
    """Return operations of the matrix units in percent of all operations; None where the report counts none."""
    flops = all_flops(kernel)
    return 100 * tensor_flops(kernel) / flops if flops > 0 else None


def _double_flops(kernel: KernelProfile) -> float | None:
    return kernel.flops.get("fp64")


def _active_threads(kernel: KernelProfile) -> float | None:
    """Return the active threads of the average instruction."""
    return kernel.metrics.get(THREADS_PER_INSTRUCTION)


# Global memory.

THROTTLES = {
    "lg_throttle": "global and local memory",
    "mio_throttle": "shared memory and special functions",
    "tex_throttle": "texture memory",
}
"""Waits of ncu for room in a queue → what is behind it (Nsight Compute, Kernel Profiling Guide, Warp Stall Reasons)."""
WAITING_FOR_MEMORY = "long_scoreboard"
"""ncu's name for waiting for global, local, surface or texture memory (Nsight Compute, Kernel Profiling Guide)."""
COALESCING = Cause(
    "coalescing",
    0.95,
    "Memory moves in sectors of 32 bytes. A warp whose threads touch places far apart moves whole sectors for a few bytes of"
    " each, and every such request takes several turns in L1.",
    "Let neighbouring threads touch neighbouring addresses: swap the indices, transpose through shared memory, or store the data"
    " in the order in which it is read.",
)
EXTRA_PASS = Cause(
    "extra pass",
    0.75,
    "A kernel that is limited by memory takes as long as it takes to move its bytes.",
    "Look for an array that is read or written a second time: fuse the loops, or keep the values in registers or shared memory.",
    hides=("DRAM bytes", "L2 hits"),
)
L2_HITS = Cause(
    "L2 hits",
    0.65,
    "Data that L2 does not hold come from device memory, which is slower.",
    "Let blocks that run at the same time share their data: reorder the grid, use smaller groups, or hold less. A kernel that"
    " reads everything once cannot do better.",
    hides=("DRAM bytes",),
)
DRAM_BYTES = Cause(
    "DRAM bytes",
    0.5,
    "A kernel that is limited by memory takes as long as it takes to move its bytes.",
    "Look at what else changed: spills, the layout, the data type, or the order of the blocks.",
)
IN_FLIGHT = Cause(
    "bytes in flight",
    0.7,
    "Memory answers after hundreds of cycles. Its bandwidth is used only while enough requests are under way.",
    "Issue several independent loads before the first use: unroll, use 16-byte loads, or copy asynchronously in stages.",
    hides=("throughput",),
)
THROUGHPUT = Cause(
    "throughput",
    0.5,
    "Neither arithmetic nor memory is near its peak, so the time goes into waiting.",
    "Look at the stall reasons; more independent work for each warp, or more warps, hides waiting.",
)
THROTTLE = Cause(
    "memory throttle",
    0.5,
    "The queue in front of that unit is full, so more warps or more loads in flight do not help.",
    "Send fewer and larger requests (16-byte loads and stores), keep values in registers, or move fewer bytes.",
    hides=("SM throughput",),
)
SM_THROUGHPUT = Cause(
    "SM throughput",
    0.5,
    "Arithmetic waits for data: it is cheaper than it looks, and optimising it gains little.",
    "Look at memory first: fewer bytes, fused kernels. Extra arithmetic is nearly free.",
)
MEMORY_THROUGHPUT = Cause(
    "memory throughput",
    0.5,
    "Memory waits for arithmetic: moving fewer bytes gains little.",
    "Look at arithmetic first: fewer or cheaper instructions, matrix units, a lower precision where it is allowed.",
)


def coalescing_changed(pair: LaunchPair) -> Change | None:
    """Find a changed use of sectors, with the sectors for each load and store that moved the same way."""
    used = pair.both("coalesced_percent")
    fields = {"load": "load_sectors_per_request", "store": "store_sectors_per_request"}
    requests = {name: sides for name, field in fields.items() if (sides := pair.both(field)) and sides.factor}
    if not requests or used is None or not used.factor or not noticed(used.factor):
        return None  # wider vectors also take more sectors, and use them all
    worse = used.head < used.reference
    moved = [
        f"{sides.text('{:.3g}'.format)} sectors for each {name}"
        for name, sides in requests.items()
        if sides.head != sides.reference and (sides.head > sides.reference) == worse
    ]
    text = f"Coalescing {used.text(points)}{': ' if moved else ''}{', '.join(moved)}."
    return Change(COALESCING, text, 1 / used.factor)


def coalescing_low(kernel: KernelProfile) -> State | None:
    """Find global accesses that use few of the sectors that they move."""
    used = kernel.coalesced_percent
    if used is None or used >= at.COALESCED_PERCENT:
        return None
    busy = max(kernel.memory_percent or 0, kernel.dram_percent or 0)
    text = f"Global accesses use {points(used)} of the sectors that they move."
    return State(COALESCING, text, (1 - used / 100) * busy / 100, "high" if busy >= at.THROUGHPUT_PERCENT else "medium")


def extra_pass(pair: LaunchPair) -> Change | None:
    """Find more traffic with device memory, because the kernel itself asks for more."""
    moved, asked = bytes_changed(pair), pair.both(global_sectors)
    if moved is None or asked is None or not same_way(moved.factor, asked.factor):
        return None
    own = asked.text(lambda sectors: units.size(SECTOR_BYTES * sectors))
    text = f"{moved.what.removesuffix('.')}, because the kernel itself loads and stores {own}."
    return Change(EXTRA_PASS, text, moved.factor)


def l2_changed(pair: LaunchPair) -> Change | None:
    """Find more traffic with device memory, because fewer accesses hit L2."""
    hits, moved = pair.both("l2_hit_percent"), bytes_changed(pair)
    if hits is None or moved is None or hits.most - hits.least < at.HIT_POINTS:
        return None
    if (hits.head < hits.reference) != (moved.factor > 1):
        return None
    return Change(L2_HITS, f"L2 hits {hits.text(points)}: {units.lowered(moved.what)}", moved.factor)


def bytes_changed(pair: LaunchPair) -> Change | None:
    """Find more or less traffic with device memory, for whatever reason."""
    moved = pair.both("dram_bytes")
    if moved is None or not moved.factor or not noticed(moved.factor):
        return None
    return Change(DRAM_BYTES, f"Device memory moves {moved.text(units.size)}.", moved.factor)


def l2_low(kernel: KernelProfile) -> State | None:
    """Find few hits in L2; where device memory is not busy, a miss costs little."""
    hits, busy = kernel.l2_hit_percent, kernel.dram_percent or 0
    if hits is None or hits >= at.L2_HIT_PERCENT:
        return None
    text = f"L2 hits are {points(hits)}, with device memory {points(busy)} busy."
    return State(L2_HITS, text, (1 - hits / 100) * (0.5 if busy >= at.THROUGHPUT_PERCENT else at.ASIDE), "low")


def in_flight_changed(pair: LaunchPair) -> Change | None:
    """Find as many warps that move as many bytes, but slower: each warp asks for less at once."""
    moved, warps, busy = pair.factor("dram_bytes"), pair.factor("occupancy_percent"), pair.both("dram_percent")
    if moved is None or warps is None or busy is None or noticed(moved) or noticed(warps):
        return None
    if not busy.factor or not noticed(busy.factor):
        return None
    slower = pair.slower
    if worst_stall(slower) != WAITING_FOR_MEMORY or busiest_percent(slower) >= at.BUSY_PERCENT:
        return None
    text = (
        f"Device memory {busy.text(points)} busy for the same bytes and about as many warps: fewer bytes are in flight"
        f"{'' if slower is pair.head else ' in the reference'}."
    )
    return Change(IN_FLIGHT, text, 1 / busy.factor)


def in_flight_low(kernel: KernelProfile) -> State | None:
    """Find warps that mostly wait for loads while no unit is busy."""
    busiest = busiest_percent(kernel)
    if kernel.memory_percent is None or kernel.sm_percent is None or busiest >= at.OCCUPANCY_PERCENT:
        return None
    waited, between = kernel.stalls.get(WAITING_FOR_MEMORY, 0.0), sum(kernel.stalls.values())
    if worst_stall(kernel) != WAITING_FOR_MEMORY or waited < at.WAITING_SHARE * between:
        return None
    text = (
        f"Warps wait for loads in {waited:.0f} of the {between:.0f} cycles between two instructions,"
        f" with memory {points(kernel.memory_percent)} busy: too few bytes are in flight."
    )
    return State(IN_FLIGHT, text, 1 - busiest / 100)


def memory_throttle(kernel: KernelProfile) -> State | None:
    """Find warps that mostly wait until memory takes another request."""
    reason = worst_stall(kernel)
    if reason not in THROTTLES:
        return None
    waited, between = kernel.stalls[reason], sum(kernel.stalls.values())
    text = (
        f"Warps wait to hand requests to {THROTTLES[reason]} in {waited:.0f} of the {between:.0f} cycles between two"
        f" instructions ({reason}): its bandwidth is the limit."
    )
    return State(THROTTLE, text, waited / between / 2)


def throughput_low(kernel: KernelProfile) -> State | None:
    """Find arithmetic or memory, or both, far from their peaks."""
    sm, memory = kernel.sm_percent, kernel.memory_percent
    if sm is None or memory is None or min(sm, memory) >= at.THROUGHPUT_PERCENT:
        return None
    most = max(sm, memory)
    if most < at.THROUGHPUT_PERCENT:
        text = f"SM {points(sm)} and memory {points(memory)} of their peaks: both mostly wait."
        return State(THROUGHPUT, text, (1 - most / 100) / 2, "low")
    cause, low, other = (SM_THROUGHPUT, "SM", "memory") if sm < memory else (MEMORY_THROUGHPUT, "Memory", "the SM")
    text = f"{low} at {points(min(sm, memory))} of its peak, {other} at {points(most)}: {other} is nearer to its limit."
    return State(cause, text, (1 - most / 100) * at.ASIDE, "low")


CHANGES = (
    *(tensor_changed, precision_changed, divergence_changed, steps_changed, instructions_changed),
    *(coalescing_changed, extra_pass, l2_changed, bytes_changed, in_flight_changed),
)
STATES = (
    *(tensor_unused, precision_double, divergence_present),
    *(coalescing_low, in_flight_low, l2_low, throughput_low, memory_throttle),
)
