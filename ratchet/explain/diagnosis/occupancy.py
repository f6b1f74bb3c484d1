"""Rules about registers, shared memory, atomics and warps: what limits the warps of an SM, and what makes them wait.

Applied by `diagnose`. Three sections: spills, conflicts (banks and atomics), occupancy (with waves and tiles). Pure.
"""

from __future__ import annotations

import math

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
    summed,
    whole,
)
from ratchet.explain.metrics import ATOMICS, LOAD_SECTORS, LOCAL_SECTORS, REQUESTS, SECTOR_BYTES, SM_ACTIVE, SM_ELAPSED


def spilled_bytes(kernel: KernelProfile) -> float | None:
    """Return the bytes that spills of this launch moved; all local memory where the report has no figure for spills."""
    sectors = summed(kernel, *LOCAL_SECTORS)
    return kernel.spill_bytes if kernel.spill_bytes is not None else sectors and sectors * SECTOR_BYTES


def spills_changed(pair: LaunchPair) -> Change | None:
    """Find spills that doubled, or that only one side has."""
    head, reference = spilled_bytes(pair.head), spilled_bytes(pair.reference)
    if head is None or reference is None:
        return None
    more, less = max(head, reference), min(head, reference)
    if more < at.TWICE * less or more <= 0 or _share(pair.head if head == more else pair.reference, more) < at.SPILL_SHARE:
        return None
    # What was moved besides the spills is the measure of what they add.
    factor = (_other_bytes(pair.head) + head) / (_other_bytes(pair.reference) + reference)
    text = f"Spills {arrow(units.size(reference), units.size(head))}"
    if pair.head.registers and pair.reference.registers:
        text += f", with registers {arrow(pair.reference.registers, pair.head.registers)} per thread"
    occupancy = (pair.reference.occupancy_percent, pair.head.occupancy_percent)
    if occupancy[0] and occupancy[1]:
        text += f" and occupancy {arrow(points(occupancy[0]), points(occupancy[1]))}"
    return Change(f"{text}.", factor)


def spills_present(kernel: KernelProfile) -> State | None:
    """Find spills that are a noticeable part of the traffic."""
    spilled = spilled_bytes(kernel)
    if not spilled or _share(kernel, spilled) < at.SPILL_SHARE:
        return None
    text = f" at {kernel.registers} registers per thread" if kernel.registers else ""
    return State(f"Spills move {units.size(spilled)}{text}.", _share(kernel, spilled) / 2, "high")


def _other_bytes(kernel: KernelProfile) -> float:
    sectors = global_sectors(kernel)
    return max(sectors * SECTOR_BYTES if sectors is not None else kernel.dram_bytes or 0, 1.0)


def _share(kernel: KernelProfile, spilled: float) -> float:
    return spilled / (spilled + _other_bytes(kernel))


WHY = (
    "Values that do not fit into the registers are written to local memory and read back. This extra traffic goes through L1,"
    " then to L2 and device memory."
)
ADVICE = (
    "Leave the compiler more registers (__launch_bounds__, maxrregcount, num_warps), or keep fewer values alive: smaller tiles,"
    " less unrolling, arrays indexed by constants."
)
SPILL_CHANGES = {spills_changed: ChangeRule("spills", 0.98, WHY, ADVICE)}
SPILL_STATES = {spills_present: StateRule("spills", WHY, ADVICE)}


# Conflicts: banks of shared memory, and atomics on the same addresses.


def conflict_share(kernel: KernelProfile) -> float | None:
    """Return the extra wavefronts over all wavefronts of shared memory, 0 to 1; None where the report lacks them."""
    if kernel.bank_conflicts is None or kernel.shared_wavefronts is None:
        return None
    return min(1.0, kernel.bank_conflicts / kernel.shared_wavefronts) if kernel.shared_wavefronts else 0.0


def conflicts_changed(pair: LaunchPair) -> Change | None:
    """Find a changed share of bank conflicts."""
    head, reference = conflict_share(pair.head), conflict_share(pair.reference)
    if head is None or reference is None or max(head, reference) < at.CONFLICT_SHARE:
        return None
    # An access with conflicts takes 1 / (1 - share) times as long as one without.
    factor = (1 - min(reference, 0.99)) / (1 - min(head, 0.99))
    if not noticed(factor):
        return None
    counts = arrow(whole(pair.reference.bank_conflicts or 0), whole(pair.head.bank_conflicts or 0))
    share = arrow(points(reference * 100), points(head * 100))
    return Change(f"Bank conflicts {counts}: {share} of the shared memory wavefronts are due to conflicts.", factor)


def conflicts_present(kernel: KernelProfile) -> State | None:
    """Find a high share of bank conflicts."""
    share = conflict_share(kernel)
    if share is None or share < at.CONFLICT_SHARE:
        return None
    busy = max(kernel.memory_percent or 0, kernel.sm_percent or 0) / 100
    return State(
        f"{points(share * 100)} of the shared memory wavefronts are due to bank conflicts.",
        share * busy,
        "medium",
    )


def atomics_changed(pair: LaunchPair) -> Change | None:
    """Find atomics that doubled and are a noticeable part of all requests."""
    head, reference = summed(pair.head, *ATOMICS), summed(pair.reference, *ATOMICS)
    if head is None or reference is None:
        return None
    more, less = max(head, reference), min(head, reference)
    if more < at.TWICE * less or _atomic_share(pair.head if head == more else pair.reference) < at.SERIAL_ATOMICS_SHARE:
        return None
    return Change(f"Atomics on global memory {arrow(whole(reference), whole(head))} (counted for each warp).",
                  max(head, 1.0) / max(reference, 1.0))  # fmt: skip


def atomics_present(kernel: KernelProfile) -> State | None:
    """Find many atomics while no unit is busy."""
    share = _atomic_share(kernel)
    if share < at.SERIAL_ATOMICS_SHARE or max(kernel.memory_percent or 0, kernel.sm_percent or 0) >= at.THROUGHPUT_PERCENT:
        return None
    return State(f"{points(share * 100)} of the requests to global memory are atomics, and no unit is busy.", share, "medium")


def _atomic_share(kernel: KernelProfile) -> float:
    atomics, others = summed(kernel, *ATOMICS), summed(kernel, *REQUESTS)
    return atomics / (atomics + (others or 0)) if atomics else 0.0


BANKS_WHY = "Shared memory serves 32 banks at once. Threads of a warp that want different words of one bank wait for each other."
BANKS_ADVICE = "Pad the rows of the tile by one element, or swizzle its columns, so that a warp touches 32 different banks."
ATOMICS_WHY = "Atomics on one address are done one after another in L2, however many threads ask."
ATOMICS_ADVICE = "Add up within the warp and the block first (shuffles, shared memory), and send one atomic for each block."
SHARED_CHANGES = {
    conflicts_changed: ChangeRule("bank conflicts", 0.95, BANKS_WHY, BANKS_ADVICE),
    atomics_changed: ChangeRule("atomics", 0.93, ATOMICS_WHY, ATOMICS_ADVICE),
}
SHARED_STATES = {
    conflicts_present: StateRule("bank conflicts", BANKS_WHY, BANKS_ADVICE),
    atomics_present: StateRule("atomics", ATOMICS_WHY, ATOMICS_ADVICE),
}


# How many warps an SM holds, and how much of the GPU a grid fills.


def occupancy_changed(pair: LaunchPair) -> Change | None:
    """Find a changed achieved occupancy that goes with a change of the warps that the launch allows."""
    head, reference = pair.head.occupancy_percent, pair.reference.occupancy_percent
    fewer = ratio(reference, head)
    limit = ratio(pair.reference.occupancy_limit_percent, pair.head.occupancy_limit_percent)
    if head is None or reference is None or fewer is None or limit is None:
        return None
    if not noticed(fewer) or not noticed(limit) or (fewer > 1) != (limit > 1):
        return None
    tighter = pair.head if fewer > 1 else pair.reference
    limits = arrow(points(pair.reference.occupancy_limit_percent or 0), points(pair.head.occupancy_limit_percent or 0))
    text = f"Occupancy {arrow(points(reference), points(head))}; the launch allows {limits}"
    return Change(f"{text}{_because(pair, tighter)}.", fewer)


def _because(pair: LaunchPair, tighter: KernelProfile) -> str:
    """Return the limit of the side with fewer warps, with the figures of both sides."""
    match tighter.occupancy_limiter:
        case "registers":
            both = (pair.reference.registers, pair.head.registers)
            return f", limited by registers ({arrow(*both)} per thread)" if None not in both else ", limited by registers"
        case "shared memory":
            sides = (pair.reference.shared_bytes, pair.head.shared_bytes)
            sizes = [units.size(size) for size in sides if size is not None]
            return f", limited by shared memory ({arrow(*sizes)} per block)" if len(sizes) == 2 else ", limited by shared memory"
        case None:
            return ""
        case limiter:
            return f", limited by {limiter}"


def occupancy_low(kernel: KernelProfile) -> State | None:
    """Find few active warps while no unit is at its limit."""
    achieved = kernel.occupancy_percent
    if achieved is None or achieved >= at.OCCUPANCY_PERCENT:
        return None
    if max(kernel.sm_percent or 0, kernel.memory_percent or 0, kernel.tensor_percent or 0) >= at.BUSY_PERCENT:
        return None  # a unit that is at its limit has warps enough
    text = f"Occupancy is {points(achieved)}"
    limit = kernel.occupancy_limit_percent
    if limit is not None:
        text += f"; the launch allows {points(limit)}"
        if limit < at.OCCUPANCY_PERCENT and kernel.occupancy_limiter:
            text += f", limited by {kernel.occupancy_limiter}"
    busy = max(kernel.sm_percent or 0, kernel.memory_percent or 0) / 100
    return State(f"{text}.", (1 - achieved / 100) * (1 - busy), "low" if busy >= 0.6 else "medium")


def tail_share(kernel: KernelProfile) -> float | None:
    """Return the part of the waves that stays empty, 0 to 1: 1.1 waves take as long as 2. None outside 1 to `FEW_WAVES`."""
    if kernel.waves is None or not 1 <= kernel.waves <= at.FEW_WAVES:
        return None
    return 1 - kernel.waves / math.ceil(kernel.waves - 0.005)


def tail_changed(pair: LaunchPair) -> Change | None:
    """Find a change in the part of the waves that stays empty."""
    head, reference = tail_share(pair.head), tail_share(pair.reference)
    if head is None or reference is None or max(head, reference) < at.TAIL_SHARE:
        return None
    factor = (1 - reference) / (1 - head)
    worked = ratio(_active_share(pair.reference), _active_share(pair.head))
    if worked is not None:
        # Blocks that take unequal times fill gaps that whole waves would leave: what the SMs worked says how much was lost.
        factor = min(factor, max(worked, 1.0)) if factor > 1 else max(factor, min(worked, 1.0))
    if not noticed(factor):
        return None
    text = f"Waves of blocks {arrow(f'{pair.reference.waves:.2f}', f'{pair.head.waves:.2f}')}"
    text += f": {arrow(points(100 * reference), points(100 * head))} of their block slots stay empty"
    busy = [_active_share(pair.reference), _active_share(pair.head)]
    if None not in busy:
        text += f", and SMs work {arrow(*(points(100 * (share or 0)) for share in busy))} of the time"
    return Change(f"{text}.", factor)


def tail_present(kernel: KernelProfile) -> State | None:
    """Find waves that leave much of the GPU empty at the end."""
    share, active = tail_share(kernel), _active_share(kernel)
    if share is None or share < at.TAIL_SHARE:
        return None
    idle = share if active is None else min(share, 1 - active)
    return State(f"{kernel.waves:.2f} waves of blocks: {points(100 * share)} of their block slots stay empty.", idle,
                 "medium" if active is not None and idle >= at.TAIL_SHARE / 2 else "low")  # fmt: skip


def small_grid(kernel: KernelProfile) -> State | None:
    """Find a grid that fills less than half of the GPU."""
    count = blocks(kernel)
    if kernel.waves is None or count is None or kernel.waves >= at.SMALL_GRID_WAVES:
        return None
    return State(f"{whole(count)} block{'s' * (count != 1)}: {points(100 * kernel.waves)} of what the GPU holds at once.",
                 (1 - kernel.waves) / 2, "low")  # fmt: skip


def sms_idle(kernel: KernelProfile) -> State | None:
    """Find SMs that have no work for much of the time."""
    active = _active_share(kernel)
    if active is None or 100 * active >= at.ACTIVE_PERCENT:
        return None
    return State(f"SMs have work in {points(100 * active)} of the kernel's time.", (1 - active) / 2, "medium")


def tile_changed(pair: LaunchPair) -> Change | None:
    """Find more blocks that do the same work, and each load their own copy of data that they share."""
    grid = ratio(blocks(pair.head), blocks(pair.reference))
    loads = ratio(pair.head.metrics.get(LOAD_SECTORS), pair.reference.metrics.get(LOAD_SECTORS))
    work = ratio(all_flops(pair.head), all_flops(pair.reference))
    if grid is None or loads is None or work is None or noticed(work):
        return None
    if not noticed(loads) or not noticed(grid) or (grid > 1) != (loads > 1):
        return None
    text = f"Blocks {arrow(whole(blocks(pair.reference) or 0), whole(blocks(pair.head) or 0))} for the same operations"
    sizes = [kernel.shared_bytes for kernel in (pair.reference, pair.head)]
    if None not in sizes:
        text += f" (shared memory {arrow(*(units.size(size or 0) for size in sizes))} each)"
    loaded = (SECTOR_BYTES * (side.metrics.get(LOAD_SECTORS) or 0) for side in (pair.reference, pair.head))
    return Change(f"{text}: together they load {arrow(*map(units.size, loaded))}.", loads)


def _active_share(kernel: KernelProfile) -> float | None:
    """Return the part of the kernel's time in which the average SM had work, 0 to 1."""
    active, elapsed = kernel.metrics.get(SM_ACTIVE), kernel.metrics.get(SM_ELAPSED)
    return min(1.0, active / elapsed) if active is not None and elapsed else None


OCCUPANCY_WHY = "While one warp waits for memory, the SM runs another. With few warps, it often has none to run."
OCCUPANCY_ADVICE = (
    "Lower what limits it: shared memory per block (smaller tiles, fewer stages), registers per thread (__launch_bounds__), or"
    " the block's size. With enough independent work in each warp, low occupancy is fine."
)
TAIL_WHY = "A wave takes as long as its slowest block, and the last one takes as long as a full one however few blocks it has."
TAIL_ADVICE = (
    "Choose the block's size or the tile so that the grid fills whole waves, or use a persistent kernel: one wave of "
    "blocks that loops over the tiles."
)
OCCUPANCY_CHANGES = {
    tile_changed: ChangeRule("tile", 0.88,
               "A larger tile uses each value that it loads more often. Smaller ones load the same data again, through L2 and"
               " shared memory, and keep the tensor cores waiting.",
               "Go back to the larger tile, or tune the tile on this GPU."),
    tail_changed: ChangeRule("tail", 0.86, TAIL_WHY, TAIL_ADVICE),
    occupancy_changed: ChangeRule("occupancy", 0.8, OCCUPANCY_WHY, OCCUPANCY_ADVICE),
}  # fmt: skip
OCCUPANCY_STATES = {
    occupancy_low: StateRule("occupancy", OCCUPANCY_WHY, OCCUPANCY_ADVICE),
    tail_present: StateRule("tail", TAIL_WHY, TAIL_ADVICE),
    small_grid: StateRule("small grid",
              "SMs without a block do nothing, and those with few hide little of their waiting.",
              "Split the work further: smaller tiles, or a split of the reduction."),
    sms_idle: StateRule("SM utilisation",
              "An SM without a block does nothing, and the kernel ends with its last block.",
              "More and smaller blocks, blocks of equal work, or one kernel in place of several short ones."),
}  # fmt: skip
