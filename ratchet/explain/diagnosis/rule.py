"""Parts of all rules: figures of a kernel, every threshold, and the step from what a rule found to a finding. Pure.

Used by `diagnose` and by the rules of each theme. A figure is None wherever the profile does not have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ratchet.core import units
from ratchet.core.records.profile import Effect, Finding, KernelProfile
from ratchet.explain.metrics import LOAD_SECTORS, STORE_SECTORS


def noticed(factor: float | None) -> bool:
    """Return whether a figure that grew or shrank by this factor is another figure; not where the factor is unknown."""
    return factor is not None and max(factor, 1 / factor) >= NOTICED


def summed(kernel: KernelProfile, *names: str) -> float | None:
    """Return the sum of those metrics that the kernel has; None where it has none of them."""
    values = [kernel.metrics[name] for name in names if name in kernel.metrics]
    return sum(values) if values else None


def global_sectors(kernel: KernelProfile) -> float | None:
    """Return the 32-byte sectors that loads and stores of global memory moved through L1."""
    return summed(kernel, LOAD_SECTORS, STORE_SECTORS)


def blocks(kernel: KernelProfile) -> int | None:
    """Return the number of blocks of the grid."""
    return math.prod(kernel.grid) if kernel.grid else None


def all_flops(kernel: KernelProfile) -> float:
    """Return the counted operations of all precisions."""
    return sum(kernel.flops.values())


def tensor_flops(kernel: KernelProfile) -> float:
    """Return the counted operations of the matrix units."""
    return sum(count for name, count in kernel.flops.items() if name.startswith("tensor_"))


def worst_stall(kernel: KernelProfile) -> str | None:
    """Return the reason for which warps waited longest; None where it is unknown or a cycle at most."""
    waits = {reason: cycles for reason, cycles in kernel.stalls.items() if reason not in ("selected", "not_selected")}
    longest = max(waits, key=lambda reason: waits[reason], default=None)
    return longest if longest is not None and waits[longest] > 1 else None


def busiest_percent(kernel: KernelProfile) -> float:
    """Return how busy the SM or memory was, whichever is more."""
    return max(kernel.sm_percent or 0, kernel.memory_percent or 0)


def arrow(reference: object, head: object) -> str:
    """Format ``128 → 255``: the reference first, as time runs."""
    return f"{reference} → {head}"


def whole(value: float) -> str:
    """Format a count: ``65,536`` and ``16.5 million``."""
    if value >= 999_500:
        return f"{value / 1e6:.3g} million" if value < 999.5e6 else f"{value / 1e9:.3g} billion"
    return f"{value:,.0f}"


def points(value: float) -> str:
    """Format a number that is a percentage already: ``17 %``; below ten with a decimal."""
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


# Every threshold of the rules; research/README.md shows how well they name planted causes. PERCENT is 0 to 100, SHARE is 0 to 1.


# One side.
COALESCED_PERCENT = 80.0
"""Below it, a fifth of the sectors that global accesses move is not used."""
OCCUPANCY_PERCENT = 60.0
L2_HIT_PERCENT = 80.0
THROUGHPUT_PERCENT = 50.0
"""Where neither arithmetic nor memory is busier than this, the kernel mostly waits."""
ASIDE = 0.05
"""Weight of what a reading guide names, and what is hardly ever the cause: it comes last."""
ACTIVE_PERCENT = 60.0
"""Part of a kernel's time in which the average SM has work."""
BUSY_PERCENT = 80.0
"""A unit this busy is the limit: more warps or more loads in flight do not help."""
CONFLICT_SHARE = 0.2
"""Extra wavefronts over all wavefronts of shared memory."""
SPILL_SHARE = 0.05
"""Local over local and global sectors; a few spilled values outside the loop cost nothing."""
WAITING_SHARE = 0.5
"""Part of the cycles between two instructions; a warp that waits less for its loads mostly does something else."""
DIVERGENT_THREADS = 24.0
"""Threads of a warp's 32 that are active in the average instruction."""
TAIL_SHARE = 0.2
"""Part of the time in which the last wave leaves the GPU partly empty."""
FEW_WAVES = 8.0
"""With more waves, blocks end at different times and fill the gaps."""
SMALL_GRID_WAVES = 0.5
SHORT_KERNEL_S = 5e-6
"""A launch takes the host about as long, so while kernels are shorter the GPU waits for the host."""
MANY_LAUNCHES = 8
MATRIX_INTENSITY = 50.0
"""FLOPs over bytes of device memory, from which products of matrices are likely."""
SERIAL_ATOMICS_SHARE = 0.2
"""Atomics over all requests to global memory."""

# Traced calls.
GAP_SHARE = 0.3
ALLOCATION_SHARE = 0.1

TIMES_SHARE = 0.1
"""Part of the change of a call; a cost that moved by less is not named as its cause."""
SAME_TRACED = 1.02
"""Traced times that differ by less are the same time."""
STRETCHED = 2.0
"""Traced times on the CPU that are this many times what a call takes without a tracer, or its change, are the tracer's."""
PROCESS_SPREADS = 3 * math.sqrt(2)
"""Standard deviations between processes by which two traces, each of one process, have to differ."""

# Both sides.
NOTICED = 1.15
"""A figure that grew or shrank by less is the same figure."""
SAME_WORK = 0.05
"""Operations that differ by less are the same work."""
TWICE = 2.0
"""The least factor for counts that vary by themselves."""
HIT_POINTS = 10.0
STORM = 4.0
"""With this many times the launches, their number is the cause; with fewer, an extra kernel is."""


# Rules, and findings made of their answers.


Confidence = Literal["high", "medium", "low"]

SAME_TIME = math.log(1.03)
"""Kernel times under the profiler that differ by less say nothing about what made the difference."""
WELL_EXPLAINED, PARTLY_EXPLAINED = 0.6, 0.25
"""Parts of the change from which a cause is held with high and with medium confidence."""
ADVICE_WHEN_FASTER = "This explains the improvement; no action needed."
ADVICE_AGAINST_SLOWER = "This makes the head faster; no action needed."


@dataclass(frozen=True)
class Both:
    """One figure of both sides."""

    reference: float
    head: float

    @property
    def factor(self) -> float | None:
        """The head's over the reference's; None unless both are positive."""
        return self.head / self.reference if self.head > 0 and self.reference > 0 else None

    @property
    def most(self) -> float:
        return max(self.reference, self.head)

    @property
    def least(self) -> float:
        return min(self.reference, self.head)

    @property
    def doubled(self) -> bool:
        """Return whether one side has at least twice as much as the other."""
        return self.most > 0 and self.most >= TWICE * self.least

    def text(self, write: Callable[[float], str]) -> str:
        return arrow(write(self.reference), write(self.head))


def same_way(one: float | None, other: float | None) -> bool:
    """Return whether two figures noticeably grew, or both shrank."""
    return one is not None and other is not None and noticed(one) and noticed(other) and (one > 1) == (other > 1)


@dataclass(frozen=True)
class LaunchPair:
    """One launch on both sides."""

    head: KernelProfile
    reference: KernelProfile
    share: float = 1.0
    """Its part of the change of the whole call, 0 to 1."""

    def both(self, figure: str | Callable[[KernelProfile], float | None]) -> Both | None:
        """Return a figure of both sides, by a field of `KernelProfile` or a function; None where a side does not have it."""
        sides = (self.reference, self.head)
        reference, head = (getattr(side, figure) if isinstance(figure, str) else figure(side) for side in sides)
        return None if reference is None or head is None else Both(reference, head)

    def factor(self, figure: str | Callable[[KernelProfile], float | None]) -> float | None:
        """Return the head's figure over the reference's; None unless both have it, and it is positive."""
        sides = self.both(figure)
        return sides.factor if sides else None

    @property
    def log_ratio(self) -> float | None:
        """ln(head time / reference time); None where a side has no duration."""
        factor = self.factor("duration_s")
        return math.log(factor) if factor else None

    @property
    def slower(self) -> KernelProfile:
        """The side that took longer; the head where that is not known."""
        return self.reference if (self.log_ratio or 0) < 0 else self.head


@dataclass(frozen=True)
class Cause:
    """The texts of all findings with one key."""

    key: str
    rank: float
    """Between 0 and 1: high for what somebody wrote in the source, low for what is usually a consequence of something else."""
    why: str
    advice: str
    hides: tuple[str, ...] = ()
    """Keys that follow from it, and are not reported again for the same kernel."""


@dataclass(frozen=True)
class Change:
    """A difference between the sides that a rule found in one launch."""

    cause: Cause
    what: str
    factor: float
    """The head's cost in this respect over the reference's: above 1 it makes the head slower. Positive."""


@dataclass(frozen=True)
class State:
    """Something that a rule found on one side."""

    cause: Cause
    what: str
    potential: float
    """The part of the kernel's time that it may cost, 0 to 1, roughly."""
    confidence: Confidence = "medium"


@dataclass(frozen=True)
class Difference:
    """Something that differs between the sides, before it is known whether it goes with the change of the case or against it."""

    cause: Cause
    what: str
    effect: Effect | None
    """Its effect on the head; None where that is not known."""
    part: float
    """Its part of the change of the case, 0 to 1."""
    share: float = 1.0
    """This kernel's part of the change."""
    kernel: str | None = None


def explained_share(log_ratio: float | None, factor: float) -> float | None:
    """Return the part of a change in time that a change in cost may explain, 0 to 1; None where they go in opposite directions.

    ``factor``: the head's cost over the reference's. Where it is f and the time grew by r, it explains at most log f / log r.
    Where the time is unknown or hardly changed, the part is at most a half.
    """
    cost = math.log(factor)
    if log_ratio is None or abs(log_ratio) < SAME_TIME:
        return min(1.0, abs(cost)) / 2
    part = cost / log_ratio
    return min(1.0, part) if part > 0 else None


def changed(change: Change | None, pair: LaunchPair) -> Difference | None:
    """Return the difference that one rule found in one launch; None where it found none, or one that goes against the time."""
    part = explained_share(pair.log_ratio, change.factor) if change else None
    if change is None or part is None:
        return None
    effect: Effect = "slower" if change.factor > 1 else "faster"
    return Difference(change.cause, change.what, effect, part, pair.share, pair.head.function)


def direction_of(ratio: float | None) -> Effect | None:
    """Return whether the head is slower or faster, by head time / reference time; None where it is not known or equal."""
    return None if ratio is None or ratio == 1 else "slower" if ratio > 1 else "faster"


def judged(difference: Difference, direction: Effect | None) -> Finding:
    """Make a difference a finding about a case with this direction: a cause (weight above 1), or not the cause (below)."""
    cause = difference.cause
    against = None not in (direction, difference.effect) and difference.effect != direction
    advice = cause.advice
    if difference.effect == "faster":
        advice = ADVICE_AGAINST_SLOWER if direction == "slower" else ADVICE_WHEN_FASTER
    elif against:
        advice = f"This makes the head slower, although the case is faster. To gain more: {units.lowered(advice)}"
    size, sure = cause.rank * difference.part * difference.share, cause.rank * difference.part
    return Finding(
        key=cause.key,
        what=f"Not the cause: {units.lowered(difference.what)}" if against else difference.what,
        why=cause.why,
        advice=advice,
        confidence="high" if sure >= WELL_EXPLAINED else "medium" if sure >= PARTLY_EXPLAINED else "low",
        weight=0.99 * size if against else 1 + size,
        kernel=difference.kernel,
        effect=difference.effect,
    )


def standing(state: State, share: float, kernel: str | None = None) -> Finding:
    """Return the finding of one rule about one side; its weight is below 1, so it comes after all causes of the change."""
    sure = {"high": 1.0, "medium": 0.7, "low": 0.4}[state.confidence]
    return Finding(
        key=state.cause.key,
        what=state.what,
        why=state.cause.why,
        advice=state.cause.advice,
        confidence=state.confidence,
        weight=0.99 * sure * min(1.0, max(0.0, state.potential)) * share,
        kernel=kernel,
    )
