"""Rules about what a kernel does: its arithmetic, and its traffic with global memory.

Matrix units, precision, divergence, more instructions than before; coalescing, more bytes than before, cache hits, too few bytes
in flight. `diagnose` applies `CHANGES` to both sides of a launch and `STATES` to the head. Pure.
"""

from __future__ import annotations

from ratchet.core import units
from ratchet.core.records.profile import KernelProfile
from ratchet.explain.diagnosis import rule as at
from ratchet.explain.diagnosis.rule import (
    Change,
    ChangeRule,
    LaunchPair,
    State,
    StateRule,
    all_flops,
    arrow,
    blocks,
    global_sectors,
    noticed,
    points,
    ratio,
    tensor_flops,
    whole,
    worst_stall,
)
from ratchet.explain.metrics import SECTOR_BYTES, THREADS_PER_INSTRUCTION

TENSOR_RATE = 8.0
"""Matrix units are at least this many times as fast as the rest; the factor only has to be large."""
FP64_RATE = 8.0
"""Double precision costs about this many times as much with its conversions; far more on chips without fast units for it."""


def tensor_changed(pair: LaunchPair) -> Change | None:
    """Find work that matrix units do on one side only."""
    head, reference = _tensor_share(pair.head), _tensor_share(pair.reference)
    if head is None or reference is None or abs(head - reference) < 0.5:
        return None
    text = f"Tensor cores do {arrow(points(reference * 100), points(head * 100))} of the arithmetic"
    if pair.head.tensor_percent is not None and pair.reference.tensor_percent is not None:
        text += f", and are {arrow(points(pair.reference.tensor_percent), points(pair.head.tensor_percent))} busy"
    return Change(f"{text}.", TENSOR_RATE if head < reference else 1 / TENSOR_RATE)


def tensor_unused(kernel: KernelProfile) -> State | None:
    """Find much arithmetic on little data through shared memory, as in products of matrices, without matrix units."""
    flops, moved = all_flops(kernel), kernel.dram_bytes
    if not moved or flops / moved < at.MATRIX_INTENSITY or tensor_flops(kernel) > 0 or not kernel.shared_wavefronts:
        return None
    if (kernel.sm_percent or 0) < at.THROUGHPUT_PERCENT or (kernel.instructions or 0) > 64 * kernel.shared_wavefronts:
        return None  # no tiles in shared memory: no product of matrices
    return State(f"{units.rate(flops / moved, 'FLOP/B')} of arithmetic, and the tensor cores do none of it.", 0.7, "low")


def precision_changed(pair: LaunchPair) -> Change | None:
    """Find double precision that the other side does not have, or has far less of."""
    head, reference = pair.head.flops.get("fp64"), pair.reference.flops.get("fp64")
    if head is None or reference is None:
        return None
    more, less = max(head, reference), min(head, reference)
    slow = pair.head if head == more else pair.reference
    if not more or more < at.TWICE * less or more < 0.1 * all_flops(slow):
        return None
    return Change(f"Operations in double precision {arrow(whole(reference), whole(head))}.",
                  FP64_RATE if head > reference else 1 / FP64_RATE)  # fmt: skip


def precision_double(kernel: KernelProfile) -> State | None:
    """Find a tenth of the operations or more in double precision."""
    double, flops = kernel.flops.get("fp64", 0.0), all_flops(kernel)
    if not double or double < 0.1 * flops:
        return None
    return State(f"{points(100 * double / flops)} of the operations are in double precision.", 0.5 * double / flops, "low")


def divergence_changed(pair: LaunchPair) -> Change | None:
    """Find a change in the active threads of a warp, where one side has few."""
    head, reference = pair.head.metrics.get(THREADS_PER_INSTRUCTION), pair.reference.metrics.get(THREADS_PER_INSTRUCTION)
    grown = ratio(reference, head)
    if head is None or reference is None or grown is None or not noticed(grown):
        return None
    if min(head, reference) >= at.DIVERGENT_THREADS:
        return None
    return Change(f"Active threads in the average instruction {arrow(f'{reference:.1f}', f'{head:.1f}')} of 32.", grown)


def divergence_present(kernel: KernelProfile) -> State | None:
    """Find warps with few active threads."""
    active = kernel.metrics.get(THREADS_PER_INSTRUCTION)
    if active is None or active >= at.DIVERGENT_THREADS:
        return None
    busy = (kernel.sm_percent or 0) / 100
    return State(f"The average instruction has {active:.1f} of 32 threads active.", (1 - active / 32) * busy, "medium")


def steps_changed(pair: LaunchPair) -> Change | None:
    """Find blocks that do the same operations with less in shared memory at a time, and need more instructions for it."""
    head, reference = pair.head, pair.reference
    grown, held = ratio(head.instructions, reference.instructions), ratio(head.shared_bytes, reference.shared_bytes)
    work = ratio(tensor_flops(head), tensor_flops(reference))
    if grown is None or held is None or work is None or blocks(head) != blocks(reference) or abs(work - 1) > at.SAME_WORK:
        return None
    if not noticed(held) or (held > 1) == (grown > 1):
        return None
    change = instructions_changed(pair)
    if change is None:
        return None
    sizes = arrow(units.size(reference.shared_bytes or 0), units.size(head.shared_bytes or 0))
    text = f"Each block holds {sizes} in shared memory for the same products: i{change.what[1:]}"
    return Change(text, change.factor)


def instructions_changed(pair: LaunchPair) -> Change | None:
    """Find more or fewer instructions, weighed by how busy the SM of the slower side is."""
    grown = ratio(pair.head.instructions, pair.reference.instructions)
    busy = pair.slower.sm_percent
    if grown is None or busy is None or not noticed(grown):
        return None
    # Where the SM is hardly busy, the time does not go into instructions.
    factor = grown ** (busy / 100)
    return Change(f"Instructions {arrow(whole(pair.reference.instructions or 0), whole(pair.head.instructions or 0))}.", factor)


def _tensor_share(kernel: KernelProfile) -> float | None:
    """Return operations of the matrix units over all operations; None where the report counts none."""
    flops = all_flops(kernel)
    return tensor_flops(kernel) / flops if flops > 0 else None


TENSOR_WHY = "Tensor cores do matrix products at least eight times as fast as the other units."
TENSOR_ADVICE = (
    "Give the product operands that tensor cores take (bf16, fp16, fp8, or tf32 in place of IEEE float32), in tiles of at least"
    " 16 on each side; in PyTorch, see torch.set_float32_matmul_precision."
)
PRECISION_WHY = "Most chips have few units for double precision, and every conversion takes an instruction of its own."
PRECISION_ADVICE = "Look for literals without an f (0.5 for 0.5f), double accumulators, and functions of the double library."
DIVERGENCE_WHY = "A warp whose threads branch differently runs every branch, with the other threads idle."
DIVERGENCE_ADVICE = (
    "Give whole warps the same kind of work: sort or group the elements, move the branch out of the loop, or compute both sides"
    " and select."
)
ARITHMETIC_CHANGES = {
    tensor_changed: ChangeRule("tensor cores", 0.98, TENSOR_WHY, TENSOR_ADVICE),
    precision_changed: ChangeRule("precision", 0.96, PRECISION_WHY, PRECISION_ADVICE),
    divergence_changed: ChangeRule("divergence", 0.94, DIVERGENCE_WHY, DIVERGENCE_ADVICE),
    steps_changed: ChangeRule("steps", 0.6,
               "A loop over smaller tiles has more iterations, and each one adds instructions.",
               "Go back to the larger inner tile and its stages (BLOCK_N or BLOCK_K, NUM_STAGES), or tune them on this GPU."),
    instructions_changed: ChangeRule("instructions", 0.5,
               "Where the SM is busy, the time depends on how many instructions it issues.",
               "Compare the machine code (ncu's source page): index arithmetic, lost vectorisation, unrolling, conversions."),
}  # fmt: skip
ARITHMETIC_STATES = {
    tensor_unused: StateRule("tensor cores", TENSOR_WHY, TENSOR_ADVICE),
    precision_double: StateRule("precision", PRECISION_WHY, PRECISION_ADVICE),
    divergence_present: StateRule("divergence", DIVERGENCE_WHY, DIVERGENCE_ADVICE),
}


# Global memory.

THROTTLES = {
    "lg_throttle": "global and local memory",
    "mio_throttle": "shared memory and special functions",
    "tex_throttle": "texture memory",
}
"""Waits of ncu for room in a queue → what is behind it (Nsight Compute, Kernel Profiling Guide, Warp Stall Reasons)."""
WAITING_FOR_MEMORY = "long_scoreboard"
"""ncu's name for waiting for global, local, surface or texture memory (Nsight Compute, Kernel Profiling Guide)."""


def coalescing_changed(pair: LaunchPair) -> Change | None:
    """Find a changed use of sectors, with the sectors for each load and store that moved the same way."""
    requests: list[tuple[float, str]] = []
    for name, field in (("load", "load_sectors_per_request"), ("store", "store_sectors_per_request")):
        head, reference = getattr(pair.head, field), getattr(pair.reference, field)
        grown = ratio(head, reference)
        if grown is not None:
            requests.append((grown, f"{arrow(f'{reference:.3g}', f'{head:.3g}')} sectors for each {name}"))
    used = ratio(pair.reference.coalesced_percent, pair.head.coalesced_percent)
    if not requests or used is None or not noticed(used):
        return None  # wider vectors also take more sectors, and use them all
    text = f"Coalescing {arrow(points(pair.reference.coalesced_percent or 0), points(pair.head.coalesced_percent or 0))}"
    wanted = [what for grown, what in requests if (grown > 1) == (used > 1) and grown != 1]
    return Change(f"{text}{': ' if wanted else ''}{', '.join(wanted)}.", used)


def coalescing_low(kernel: KernelProfile) -> State | None:
    """Find global accesses that use few of the sectors that they move."""
    used = kernel.coalesced_percent
    if used is None or used >= at.COALESCED_PERCENT:
        return None
    busy = max(kernel.memory_percent or 0, kernel.dram_percent or 0)
    return State(
        f"Global accesses use {points(used)} of the sectors that they move.",
        (1 - used / 100) * busy / 100,
        "high" if busy >= at.THROUGHPUT_PERCENT else "medium",
    )


def extra_pass(pair: LaunchPair) -> Change | None:
    """Find more traffic with device memory, because the kernel itself asks for more."""
    bytes_grown = ratio(pair.head.dram_bytes, pair.reference.dram_bytes)
    sectors_grown = ratio(global_sectors(pair.head), global_sectors(pair.reference))
    if bytes_grown is None or sectors_grown is None or not (noticed(bytes_grown) and noticed(sectors_grown)):
        return None
    if (bytes_grown > 1) != (sectors_grown > 1):
        return None
    sizes = (SECTOR_BYTES * (global_sectors(side) or 0) for side in (pair.reference, pair.head))
    return Change(f"{_bytes(pair)}, because the kernel itself loads and stores {arrow(*map(units.size, sizes))}.", bytes_grown)


def l2_changed(pair: LaunchPair) -> Change | None:
    """Find more traffic with device memory, because fewer accesses hit L2."""
    head, reference = pair.head.l2_hit_percent, pair.reference.l2_hit_percent
    grown = ratio(pair.head.dram_bytes, pair.reference.dram_bytes)
    if head is None or reference is None or grown is None or not noticed(grown) or abs(head - reference) < at.HIT_POINTS:
        return None
    if (head < reference) != (grown > 1):
        return None
    return Change(f"L2 hits {arrow(points(reference), points(head))}: {_bytes(pair, start=False)}.", grown)


def bytes_changed(pair: LaunchPair) -> Change | None:
    """Find more or less traffic with device memory, for whatever reason."""
    grown = ratio(pair.head.dram_bytes, pair.reference.dram_bytes)
    return Change(f"{_bytes(pair)}.", grown) if grown is not None and noticed(grown) else None


def l2_low(kernel: KernelProfile) -> State | None:
    """Find few hits in L2; where device memory is not busy, a miss costs little."""
    hits, busy = kernel.l2_hit_percent, kernel.dram_percent or 0
    if hits is None or hits >= at.L2_HIT_PERCENT:
        return None
    missed = 1 - hits / 100
    return State(
        f"L2 hits are {points(hits)}, with device memory {points(busy)} busy.",
        missed / 2 if busy >= at.THROUGHPUT_PERCENT else missed * at.ASIDE,
        "low",
    )


def in_flight_changed(pair: LaunchPair) -> Change | None:
    """Find as many warps that move as many bytes, but slower: each warp asks for less at once."""
    head, reference = pair.head, pair.reference
    moved = ratio(head.dram_bytes, reference.dram_bytes)
    slowed = ratio(reference.dram_percent, head.dram_percent)
    warps = ratio(head.occupancy_percent, reference.occupancy_percent)
    if moved is None or slowed is None or warps is None or noticed(moved) or noticed(warps) or not noticed(slowed):
        return None
    slower = pair.slower
    if worst_stall(slower) != WAITING_FOR_MEMORY or max(slower.memory_percent or 0, slower.sm_percent or 0) >= at.BUSY_PERCENT:
        return None
    return Change(
        f"Device memory {arrow(points(reference.dram_percent or 0), points(head.dram_percent or 0))} busy for the same bytes"
        f" and about as many warps: fewer bytes are in flight{'' if slower is head else ' in the reference'}.",
        slowed,
    )


def in_flight_low(kernel: KernelProfile) -> State | None:
    """Find warps that mostly wait for loads while no unit is busy."""
    busiest = max(kernel.memory_percent or 0, kernel.sm_percent or 0)
    if kernel.memory_percent is None or kernel.sm_percent is None or busiest >= at.OCCUPANCY_PERCENT:
        return None
    waited, between = kernel.stalls.get(WAITING_FOR_MEMORY, 0.0), sum(kernel.stalls.values())
    if worst_stall(kernel) != WAITING_FOR_MEMORY or waited < at.WAITING_SHARE * between:
        return None
    return State(
        f"Warps wait for loads in {waited:.0f} of the {between:.0f} cycles between two instructions,"
        f" with memory {points(kernel.memory_percent)} busy: too few bytes are in flight.",
        1 - busiest / 100,
        "medium",
    )


def memory_throttle(kernel: KernelProfile) -> State | None:
    """Find warps that mostly wait until memory takes another request."""
    reason = worst_stall(kernel)
    if reason not in THROTTLES:
        return None
    waited, between = kernel.stalls[reason], sum(kernel.stalls.values())
    return State(
        f"Warps wait to hand requests to {THROTTLES[reason]} in {waited:.0f} of the {between:.0f} cycles between two"
        f" instructions ({reason}): its bandwidth is the limit.",
        waited / between / 2,
        "medium",
    )


def throughput_low(kernel: KernelProfile) -> State | None:
    """Find arithmetic and memory that are both far from their peaks."""
    if kernel.memory_percent is None or kernel.sm_percent is None:
        return None
    if max(kernel.memory_percent, kernel.sm_percent) >= at.THROUGHPUT_PERCENT:
        return None
    return State(
        f"SM {points(kernel.sm_percent)} and memory {points(kernel.memory_percent)} of their peaks: both mostly wait.",
        (1 - max(kernel.memory_percent, kernel.sm_percent) / 100) / 2,
        "low",
    )


def sm_low(kernel: KernelProfile) -> State | None:
    """Find arithmetic far from its peak while memory is not."""
    return _one_low("SM", kernel.sm_percent, "memory", kernel.memory_percent)


def memory_low(kernel: KernelProfile) -> State | None:
    """Find memory far from its peak while arithmetic is not."""
    return _one_low("Memory", kernel.memory_percent, "the SM", kernel.sm_percent)


def _one_low(low: str, low_percent: float | None, other: str, other_percent: float | None) -> State | None:
    if low_percent is None or other_percent is None or not low_percent < at.THROUGHPUT_PERCENT <= other_percent:
        return None
    text = f"{low} at {points(low_percent)} of its peak, {other} at {points(other_percent)}: {other} is nearer to its limit."
    return State(text, (1 - other_percent / 100) * at.ASIDE, "low")


def _bytes(pair: LaunchPair, *, start: bool = True) -> str:
    sides = arrow(units.size(pair.reference.dram_bytes or 0), units.size(pair.head.dram_bytes or 0))
    return f"{'Device' if start else 'device'} memory moves {sides}"


MEMORY_CHANGES = {
    coalescing_changed: ChangeRule("coalescing", 0.95,
               "Memory moves in sectors of 32 bytes. A warp whose threads touch places far apart moves whole sectors for a few"
               " bytes of each, and every such request takes several turns in L1.",
               "Let neighbouring threads touch neighbouring addresses: swap the indices, transpose through shared memory, or"
               " store the data in the order in which it is read."),
    extra_pass: ChangeRule("extra pass", 0.75,
               "A kernel that is limited by memory takes as long as it takes to move its bytes.",
               "Look for an array that is read or written a second time: fuse the loops, or keep the values in registers or"
               " shared memory."),
    l2_changed: ChangeRule("L2 hits", 0.65,
               "Data that L2 does not hold come from device memory, which is slower.",
               "Let blocks that run at the same time share their data: reorder the grid, use smaller groups, or hold less."),
    bytes_changed: ChangeRule("DRAM bytes", 0.5,
               "A kernel that is limited by memory takes as long as it takes to move its bytes.",
               "Look at what else changed: spills, the layout, the data type, or the order of the blocks."),
    in_flight_changed: ChangeRule("bytes in flight", 0.7,
               "Memory answers after hundreds of cycles. Its bandwidth is used only while enough requests are under way.",
               "Issue several independent loads before the first use: unroll, use 16-byte loads, or copy asynchronously in"
               " stages."),
}  # fmt: skip
MEMORY_STATES = {
    coalescing_low: StateRule("coalescing", MEMORY_CHANGES[coalescing_changed].why, MEMORY_CHANGES[coalescing_changed].advice),
    in_flight_low: StateRule("bytes in flight", MEMORY_CHANGES[in_flight_changed].why, MEMORY_CHANGES[in_flight_changed].advice),
    l2_low: StateRule("L2 hits", MEMORY_CHANGES[l2_changed].why,
              MEMORY_CHANGES[l2_changed].advice + " A kernel that reads everything once cannot do better."),
    throughput_low: StateRule("throughput",
              "Neither arithmetic nor memory is near its peak, so the time goes into waiting.",
              "Look at the stall reasons; more independent work for each warp, or more warps, hides waiting."),
    memory_throttle: StateRule("memory throttle",
              "The queue in front of that unit is full, so more warps or more loads in flight do not help.",
              "Send fewer and larger requests (16-byte loads and stores), keep values in registers, or move fewer bytes."),
    sm_low: StateRule("SM throughput",
              "Arithmetic waits for data: it is cheaper than it looks, and optimising it gains little.",
              "Look at memory first: fewer bytes, fused kernels. Extra arithmetic is nearly free."),
    memory_low: StateRule("memory throughput",
              "Memory waits for arithmetic: moving fewer bytes gains little.",
              "Look at arithmetic first: fewer or cheaper instructions, matrix units, a lower precision where it is allowed."),
}  # fmt: skip
