"""Rules about registers, shared memory, atomics and warps: what limits the warps of an SM, and what makes them wait.

`diagnose` applies `CHANGES` to both sides of a launch and `STATES` to the head. Sections: spills, conflicts (banks and atomics),
occupancy (with waves and tiles). Pure.
"""

from __future__ import annotations

import math

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
    summed,
    whole,
)
from ratchet.explain.metrics import ATOMICS, LOAD_SECTORS, LOCAL_SECTORS, REQUESTS, SECTOR_BYTES, SM_ACTIVE, SM_ELAPSED

SPILLS = Cause(
    "spills",
    0.98,
    "Values that do not fit into the registers are written to local memory and read back. This extra traffic goes through L1,"
    " then to L2 and device memory.",
    "Leave the compiler more registers (__launch_bounds__, maxrregcount, num_warps), or keep fewer values alive: smaller tiles,"
    " less unrolling, arrays indexed by constants.",
    hides=("DRAM bytes", "L2 hits", "instructions", "occupancy"),
)


def spilled_bytes(kernel: KernelProfile) -> float | None:
    """Return the bytes that spills of this launch moved; all local memory where the report has no figure for spills."""
    sectors = summed(kernel, *LOCAL_SECTORS)
    return kernel.spill_bytes if kernel.spill_bytes is not None else sectors and sectors * SECTOR_BYTES


def spills_changed(pair: LaunchPair) -> Change | None:
    """Find spills that doubled, or that only one side has."""
    spills = pair.both(spilled_bytes)
    if spills is None or not spills.doubled:
        return None
    if _share(pair.head if spills.head == spills.most else pair.reference, spills.most) < at.SPILL_SHARE:
        return None
    # What was moved besides the spills is the measure of what they add.
    factor = (_other_bytes(pair.head) + spills.head) / (_other_bytes(pair.reference) + spills.reference)
    text = f"Spills {spills.text(units.size)}"
    if registers := pair.both("registers"):
        text += f", with registers {registers.text(whole)} per thread"
    if occupancy := pair.both("occupancy_percent"):
        text += f" and occupancy {occupancy.text(points)}"
    return Change(SPILLS, f"{text}.", factor)


def spills_present(kernel: KernelProfile) -> State | None:
    """Find spills that are a noticeable part of the traffic."""
    spilled = spilled_bytes(kernel)
    if not spilled or _share(kernel, spilled) < at.SPILL_SHARE:
        return None
    text = f" at {kernel.registers} registers per thread" if kernel.registers else ""
    return State(SPILLS, f"Spills move {units.size(spilled)}{text}.", _share(kernel, spilled) / 2, "high")


def _other_bytes(kernel: KernelProfile) -> float:
    sectors = global_sectors(kernel)
    return max(sectors * SECTOR_BYTES if sectors is not None else kernel.dram_bytes or 0, 1.0)


def _share(kernel: KernelProfile, spilled: float) -> float:
    return spilled / (spilled + _other_bytes(kernel))


# Conflicts: banks of shared memory, and atomics on the same addresses.

BANK_CONFLICTS = Cause(
    "bank conflicts",
    0.95,
    "Shared memory serves 32 banks at once. Threads of a warp that want different words of one bank wait for each other.",
    "Pad the rows of the tile by one element, or swizzle its columns, so that a warp touches 32 different banks.",
)
ATOMIC_ADDS = Cause(
    "atomics",
    0.93,
    "Atomics on one address are done one after another in L2, however many threads ask.",
    "Add up within the warp and the block first (shuffles, shared memory), and send one atomic for each block.",
    hides=("bytes in flight", "throughput"),
)


def conflict_percent(kernel: KernelProfile) -> float | None:
    """Return the extra wavefronts in percent of all wavefronts of shared memory; None where the report lacks them."""
    if kernel.bank_conflicts is None or kernel.shared_wavefronts is None:
        return None
    return min(100.0, 100 * kernel.bank_conflicts / kernel.shared_wavefronts) if kernel.shared_wavefronts else 0.0


def conflicts_changed(pair: LaunchPair) -> Change | None:
    """Find a changed share of bank conflicts."""
    share, counts = pair.both(conflict_percent), pair.both("bank_conflicts")
    if share is None or counts is None or share.most < 100 * at.CONFLICT_SHARE:
        return None
    # An access with conflicts takes 1 / (1 - share) times as long as one without.
    factor = (100 - min(share.reference, 99)) / (100 - min(share.head, 99))
    if not noticed(factor):
        return None
    text = f"Bank conflicts {counts.text(whole)}: {share.text(points)} of the shared memory wavefronts are due to conflicts."
    return Change(BANK_CONFLICTS, text, factor)


def conflicts_present(kernel: KernelProfile) -> State | None:
    """Find a high share of bank conflicts."""
    share = conflict_percent(kernel)
    if share is None or share < 100 * at.CONFLICT_SHARE:
        return None
    text = f"{points(share)} of the shared memory wavefronts are due to bank conflicts."
    return State(BANK_CONFLICTS, text, share * busiest_percent(kernel) / 1e4)


def atomics_changed(pair: LaunchPair) -> Change | None:
    """Find atomics that doubled and are a noticeable part of all requests."""
    count = pair.both(_atomics)
    if count is None or not count.doubled:
        return None
    if _atomic_share(pair.head if count.head == count.most else pair.reference) < at.SERIAL_ATOMICS_SHARE:
        return None
    text = f"Atomics on global memory {count.text(whole)} (counted for each warp)."
    return Change(ATOMIC_ADDS, text, max(count.head, 1.0) / max(count.reference, 1.0))


def atomics_present(kernel: KernelProfile) -> State | None:
    """Find many atomics while no unit is busy."""
    share = _atomic_share(kernel)
    if share < at.SERIAL_ATOMICS_SHARE or busiest_percent(kernel) >= at.THROUGHPUT_PERCENT:
        return None
    return State(ATOMIC_ADDS, f"{points(share * 100)} of the requests to global memory are atomics, and no unit is busy.", share)


def _atomics(kernel: KernelProfile) -> float | None:
    return summed(kernel, *ATOMICS)


def _atomic_share(kernel: KernelProfile) -> float:
    atomics, others = _atomics(kernel), summed(kernel, *REQUESTS)
    return atomics / (atomics + (others or 0)) if atomics else 0.0


# How many warps an SM holds, and how much of the GPU a grid fills.

OCCUPANCY = Cause(
    "occupancy",
    0.8,
    "While one warp waits for memory, the SM runs another. With few warps, it often has none to run.",
    "Lower what limits it: shared memory per block (smaller tiles, fewer stages), registers per thread (__launch_bounds__), or"
    " the block's size. With enough independent work in each warp, low occupancy is fine.",
    hides=("throughput",),
)
TAIL = Cause(
    "tail",
    0.86,
    "A wave takes as long as its slowest block, and the last one takes as long as a full one however few blocks it has.",
    "Choose the block's size or the tile so that the grid fills whole waves, or use a persistent kernel: one wave of "
    "blocks that loops over the tiles.",
    hides=("SM utilisation",),
)
SMALL_GRID = Cause(
    "small grid",
    0.5,
    "SMs without a block do nothing, and those with few hide little of their waiting.",
    "Split the work further: smaller tiles, or a split of the reduction.",
    hides=("SM utilisation",),
)
SM_UTILISATION = Cause(
    "SM utilisation",
    0.5,
    "An SM without a block does nothing, and the kernel ends with its last block.",
    "More and smaller blocks, blocks of equal work, or one kernel in place of several short ones.",
)
TILE = Cause(
    "tile",
    0.88,
    "A larger tile uses each value that it loads more often. Smaller ones load the same data again, through L2 and shared"
    " memory, and keep the tensor cores waiting.",
    "Go back to the larger tile, or tune the tile on this GPU.",
    hides=("instructions", "steps"),
)


def occupancy_changed(pair: LaunchPair) -> Change | None:
    """Find a changed achieved occupancy that goes with a change of the warps that the launch allows."""
    warps, limit = pair.both("occupancy_percent"), pair.both("occupancy_limit_percent")
    if warps is None or limit is None or not warps.factor or not same_way(warps.factor, limit.factor):
        return None
    text = f"Occupancy {warps.text(points)}; the launch allows {limit.text(points)}"
    limiter = (pair.head if warps.head < warps.reference else pair.reference).occupancy_limiter
    if limiter:
        text += f", limited by {limiter}"
    if limiter == "registers" and (registers := pair.both("registers")):
        text += f" ({registers.text(whole)} per thread)"
    if limiter == "shared memory" and (sizes := pair.both("shared_bytes")):
        text += f" ({sizes.text(units.size)} per block)"
    return Change(OCCUPANCY, f"{text}.", 1 / warps.factor)


def occupancy_low(kernel: KernelProfile) -> State | None:
    """Find few active warps while no unit is at its limit."""
    achieved, limit = kernel.occupancy_percent, kernel.occupancy_limit_percent
    if achieved is None or achieved >= at.OCCUPANCY_PERCENT:
        return None
    if max(busiest_percent(kernel), kernel.tensor_percent or 0) >= at.BUSY_PERCENT:
        return None  # a unit that is at its limit has warps enough
    text = f"Occupancy is {points(achieved)}"
    if limit is not None:
        text += f"; the launch allows {points(limit)}"
        if limit < at.OCCUPANCY_PERCENT and kernel.occupancy_limiter:
            text += f", limited by {kernel.occupancy_limiter}"
    busy = busiest_percent(kernel) / 100
    return State(OCCUPANCY, f"{text}.", (1 - achieved / 100) * (1 - busy), "low" if busy >= 0.6 else "medium")


def tail_percent(kernel: KernelProfile) -> float | None:
    """Return the part of the waves that stays empty: 1.1 waves take as long as 2. None outside 1 to `FEW_WAVES`."""
    if kernel.waves is None or not 1 <= kernel.waves <= at.FEW_WAVES:
        return None
    return max(0.0, 100 - 100 * kernel.waves / math.ceil(kernel.waves - 0.005))  # 1.004 waves are one, and leave nothing empty


def tail_changed(pair: LaunchPair) -> Change | None:
    """Find a change in the part of the waves that stays empty."""
    empty, waves, active = pair.both(tail_percent), pair.both("waves"), pair.both(_active_percent)
    if empty is None or waves is None or empty.most < 100 * at.TAIL_SHARE:
        return None
    factor = (100 - empty.reference) / (100 - empty.head)
    if active and active.factor:
        # Blocks that take unequal times fill gaps that whole waves would leave: what the SMs worked says how much was lost.
        worked = 1 / active.factor
        factor = min(factor, max(worked, 1.0)) if factor > 1 else max(factor, min(worked, 1.0))
    if not noticed(factor):
        return None
    text = f"Waves of blocks {waves.text('{:.2f}'.format)}: {empty.text(points)} of their block slots stay empty"
    if active:
        text += f", and SMs work {active.text(points)} of the time"
    return Change(TAIL, f"{text}.", factor)


def tail_present(kernel: KernelProfile) -> State | None:
    """Find waves that leave much of the GPU empty at the end."""
    empty, active = tail_percent(kernel), _active_percent(kernel)
    if empty is None or empty < 100 * at.TAIL_SHARE:
        return None
    idle = (empty if active is None else min(empty, 100 - active)) / 100
    text = f"{kernel.waves:.2f} waves of blocks: {points(empty)} of their block slots stay empty."
    return State(TAIL, text, idle, "medium" if active is not None and idle >= at.TAIL_SHARE / 2 else "low")


def small_grid(kernel: KernelProfile) -> State | None:
    """Find a grid that fills less than half of the GPU."""
    count = blocks(kernel)
    if kernel.waves is None or count is None or kernel.waves >= at.SMALL_GRID_WAVES:
        return None
    text = f"{whole(count)} block{'s' * (count != 1)}: {points(100 * kernel.waves)} of what the GPU holds at once."
    return State(SMALL_GRID, text, (1 - kernel.waves) / 2, "low")


def sms_idle(kernel: KernelProfile) -> State | None:
    """Find SMs that have no work for much of the time."""
    active = _active_percent(kernel)
    if active is None or active >= at.ACTIVE_PERCENT:
        return None
    return State(SM_UTILISATION, f"SMs have work in {points(active)} of the kernel's time.", (1 - active / 100) / 2)


def tile_changed(pair: LaunchPair) -> Change | None:
    """Find more blocks that do the same work, and each load their own copy of data that they share."""
    grid, loads, work = pair.both(blocks), pair.both(_loaded_bytes), pair.factor(all_flops)
    if grid is None or loads is None or work is None or noticed(work):
        return None
    if not loads.factor or not same_way(loads.factor, grid.factor):
        return None
    text = f"Blocks {grid.text(whole)} for the same operations"
    if sizes := pair.both("shared_bytes"):
        text += f" (shared memory {sizes.text(units.size)} each)"
    return Change(TILE, f"{text}: together they load {loads.text(units.size)}.", loads.factor)


def _loaded_bytes(kernel: KernelProfile) -> float | None:
    sectors = kernel.metrics.get(LOAD_SECTORS)
    return sectors and SECTOR_BYTES * sectors


def _active_percent(kernel: KernelProfile) -> float | None:
    """Return the part of the kernel's time in which the average SM had work."""
    active, elapsed = kernel.metrics.get(SM_ACTIVE), kernel.metrics.get(SM_ELAPSED)
    return min(100.0, 100 * active / elapsed) if active is not None and elapsed else None


CHANGES = (spills_changed, conflicts_changed, atomics_changed, tile_changed, tail_changed, occupancy_changed)
STATES = (
    *(spills_present, conflicts_present, atomics_present),
    *(occupancy_low, tail_present, small_grid, sms_idle),
)
