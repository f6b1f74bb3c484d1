"""Rules about global memory: coalescing, more bytes than before, cache hits, and too few bytes in flight.

`diagnose` applies `CHANGES` to both sides of a launch and `STATES` to the head. Pure.
"""

from __future__ import annotations

from ratchet import units
from ratchet.profile.diagnosis import rule as at
from ratchet.profile.diagnosis.rule import (
    Change,
    ChangeRule,
    LaunchPair,
    State,
    StateRule,
    arrow,
    global_sectors,
    points,
    ratio,
    worst_stall,
)
from ratchet.profile.metrics import SECTOR_BYTES
from ratchet.records.profile import KernelProfile

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
    if not requests or used is None or max(used, 1 / used) < at.NOTICED:
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
    if bytes_grown is None or sectors_grown is None or not (_noticed(bytes_grown) and _noticed(sectors_grown)):
        return None
    if (bytes_grown > 1) != (sectors_grown > 1):
        return None
    sizes = (SECTOR_BYTES * (global_sectors(side) or 0) for side in (pair.reference, pair.head))
    return Change(f"{_bytes(pair)}, because the kernel itself loads and stores {arrow(*map(units.size, sizes))}.", bytes_grown)


def l2_changed(pair: LaunchPair) -> Change | None:
    """Find more traffic with device memory, because fewer accesses hit L2."""
    head, reference = pair.head.l2_hit_percent, pair.reference.l2_hit_percent
    grown = ratio(pair.head.dram_bytes, pair.reference.dram_bytes)
    if head is None or reference is None or grown is None or not _noticed(grown) or abs(head - reference) < at.HIT_POINTS:
        return None
    if (head < reference) != (grown > 1):
        return None
    return Change(f"L2 hits {arrow(points(reference), points(head))}: {_bytes(pair, start=False)}.", grown)


def bytes_changed(pair: LaunchPair) -> Change | None:
    """Find more or less traffic with device memory, for whatever reason."""
    grown = ratio(pair.head.dram_bytes, pair.reference.dram_bytes)
    return Change(f"{_bytes(pair)}.", grown) if grown is not None and _noticed(grown) else None


def l2_low(kernel: KernelProfile) -> State | None:
    """Find few hits in L2 while device memory is busy."""
    hits = kernel.l2_hit_percent
    if hits is None or hits >= at.L2_HIT_PERCENT or (kernel.dram_percent or 0) < at.THROUGHPUT_PERCENT:
        return None  # where device memory is not the limit, a miss costs little
    return State(
        f"L2 hits are {points(hits)}, with device memory {points(kernel.dram_percent or 0)} busy.", (1 - hits / 100) / 2, "low"
    )


def in_flight_changed(pair: LaunchPair) -> Change | None:
    """Find as many warps that move as many bytes, but slower: each warp asks for less at once."""
    head, reference = pair.head, pair.reference
    moved = ratio(head.dram_bytes, reference.dram_bytes)
    slowed = ratio(reference.dram_percent, head.dram_percent)
    warps = ratio(head.occupancy_percent, reference.occupancy_percent)
    if moved is None or slowed is None or warps is None or _noticed(moved) or _noticed(warps) or not _noticed(slowed):
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


def _noticed(grown: float) -> bool:
    return max(grown, 1 / grown) >= at.NOTICED


def _bytes(pair: LaunchPair, *, start: bool = True) -> str:
    sides = arrow(units.size(pair.reference.dram_bytes or 0), units.size(pair.head.dram_bytes or 0))
    return f"{'Device' if start else 'device'} memory moves {sides}"


CHANGES = (
    ChangeRule("coalescing", 0.95, coalescing_changed,
               "Memory moves in sectors of 32 bytes. A warp whose threads touch places far apart moves whole sectors for a few"
               " bytes of each, and every such request takes several turns in L1.",
               "Let neighbouring threads touch neighbouring addresses: swap the indices, transpose through shared memory, or"
               " store the data in the order in which it is read."),
    ChangeRule("extra pass", 0.75, extra_pass,
               "A kernel that is limited by memory takes as long as it takes to move its bytes.",
               "Look for an array that is read or written a second time: fuse the loops, or keep the values in registers or"
               " shared memory."),
    ChangeRule("L2 hits", 0.65, l2_changed,
               "Data that L2 does not hold come from device memory, which is slower.",
               "Let blocks that run at the same time share their data: reorder the grid, use smaller groups, or hold less."),
    ChangeRule("DRAM bytes", 0.5, bytes_changed,
               "A kernel that is limited by memory takes as long as it takes to move its bytes.",
               "Look at what else changed: spills, the layout, the data type, or the order of the blocks."),
    ChangeRule("bytes in flight", 0.7, in_flight_changed,
               "Memory answers after hundreds of cycles. Its bandwidth is used only while enough requests are under way.",
               "Issue several independent loads before the first use: unroll, use 16-byte loads, or copy asynchronously in"
               " stages."),
)  # fmt: skip
STATES = (
    StateRule("coalescing", coalescing_low, CHANGES[0].why, CHANGES[0].advice),
    StateRule("bytes in flight", in_flight_low, CHANGES[4].why, CHANGES[4].advice),
    StateRule("L2 hits", l2_low, CHANGES[2].why,
              CHANGES[2].advice + " A kernel that reads everything once cannot do better."),
    StateRule("throughput", throughput_low,
              "Neither arithmetic nor memory is near its peak, so the time goes into waiting.",
              "Look at the stall reasons; more independent work for each warp, or more warps, hides waiting."),
)  # fmt: skip
