"""Registers that run out."""

from __future__ import annotations

from ratchet import units
from ratchet.profile.diagnosis import thresholds as at
from ratchet.profile.diagnosis.figures import LOCAL_SECTORS, SECTOR_BYTES, arrow, global_sectors, points, summed
from ratchet.profile.diagnosis.rule import Change, ChangeRule, Pair, State, StateRule
from ratchet.records.profile import KernelProfile


def spilled_bytes(kernel: KernelProfile) -> float | None:
    """Of local memory that this launch moved."""
    sectors = summed(kernel, *LOCAL_SECTORS)
    return kernel.spill_bytes if kernel.spill_bytes is not None else sectors and sectors * SECTOR_BYTES


def spills_changed(pair: Pair) -> Change | None:
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
    "What does not fit into the registers is written to local memory and read back: traffic that the kernel's result does not"
    " need, first through L1 and then from L2 and device memory."
)
ADVICE = (
    "Leave the compiler more registers (__launch_bounds__, maxrregcount, num_warps), or keep fewer values alive: smaller tiles,"
    " less unrolling, arrays indexed by constants."
)
CHANGES = (ChangeRule("spills", 0.98, spills_changed, WHY, ADVICE),)
STATES = (StateRule("spills", spills_present, WHY, ADVICE),)
