"""What a rule is, and what makes findings of what rules see. Pure, like everything in this package."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ratchet.records.profile import Effect, Finding, KernelProfile

Confidence = Literal["high", "medium", "low"]

SAME_TIME = math.log(1.03)
"""Kernel times under the profiler that differ by less say nothing about what made the difference."""
WELL_EXPLAINED, PARTLY_EXPLAINED = 0.6, 0.25
"""Parts of the change from which a cause is held with high and with medium confidence."""
ADVICE_WHEN_FASTER = "This explains the improvement; no action needed."
ADVICE_AGAINST_SLOWER = "This makes the head faster; no action needed."


@dataclass(frozen=True)
class Pair:
    """One launch on both sides."""

    head: KernelProfile
    reference: KernelProfile
    share: float = 1.0
    """Of the change of the whole call: 0 to 1."""

    @property
    def log_ratio(self) -> float | None:
        """ln(head time / reference time); None where a side has no duration."""
        if self.head.duration_s is None or self.reference.duration_s is None:
            return None
        return math.log(self.head.duration_s / self.reference.duration_s)

    @property
    def slower(self) -> KernelProfile:
        """The side that took longer; the head where that is not known."""
        return self.reference if (self.log_ratio or 0) < 0 else self.head


@dataclass(frozen=True)
class Change:
    """What a rule saw to differ."""

    what: str
    factor: float
    """The head's cost in this respect over the reference's: above 1 it makes the head slower. Positive."""


@dataclass(frozen=True)
class ChangeRule:
    """A difference between the sides that can make a difference in time."""

    key: str
    rank: float
    """Between 0 and 1: how near this is to what somebody wrote in the source, and how far from a consequence of it."""
    look: Callable[[Pair], Change | None]
    why: str
    advice: str


@dataclass(frozen=True)
class Difference:
    """Something that differs between the sides, before it is known whether it goes with the change of the case or against it."""

    key: str
    what: str
    why: str
    advice: str
    effect: Effect | None
    """What it does to the head; None where that is not known."""
    part: float
    """Of the change of the case, 0 to 1."""
    rank: float
    share: float = 1.0
    """Of the change, the part that lies in this kernel."""
    kernel: str | None = None


@dataclass(frozen=True)
class State:
    """What a rule saw on one side."""

    what: str
    potential: float
    """The part of the kernel's time that it may cost, 0 to 1, roughly."""
    confidence: Confidence = "medium"


@dataclass(frozen=True)
class StateRule:
    """Something in one profile that costs time, whatever another looks like."""

    key: str
    look: Callable[[KernelProfile], State | None]
    why: str
    advice: str


def explained(log_ratio: float | None, factor: float) -> float | None:
    """The part of a change in time that a change in cost may explain, 0 to 1; None where they point in opposite directions."""
    cost = math.log(factor)
    if log_ratio is None or abs(log_ratio) < SAME_TIME:
        return min(1.0, abs(cost)) / 2
    part = cost / log_ratio
    return min(1.0, part) if part > 0 else None


def changed(rule: ChangeRule, pair: Pair) -> Difference | None:
    """The difference that one rule sees in one launch."""
    seen = rule.look(pair)
    part = explained(pair.log_ratio, seen.factor) if seen else None
    if seen is None or part is None:
        return None
    effect: Effect = "slower" if seen.factor > 1 else "faster"
    return Difference(
        rule.key, seen.what, rule.why, rule.advice, effect, part, rule.rank, share=pair.share, kernel=pair.head.function
    )


def direction_of(ratio: float | None) -> Effect | None:
    """Which way the head went, by its time over that of the reference; None where it is not known or did not move."""
    return None if ratio is None or ratio == 1 else "slower" if ratio > 1 else "faster"


def judged(difference: Difference, direction: Effect | None) -> Finding:
    """The finding that a difference is in a case that went this way: a cause, or something that goes against it."""
    against = None not in (direction, difference.effect) and difference.effect != direction
    advice = difference.advice
    if difference.effect == "faster":
        advice = ADVICE_AGAINST_SLOWER if direction == "slower" else ADVICE_WHEN_FASTER
    elif against:
        advice = f"This makes the head slower, although the case is faster. To gain more: {lowered(advice)}"
    size = difference.rank * difference.part * difference.share
    return Finding(
        key=difference.key,
        what=f"Not the cause: {lowered(difference.what)}" if against else difference.what,
        why=difference.why,
        advice=advice,
        confidence=confidence(difference.part * difference.rank),
        weight=0.99 * size if against else 1 + size,
        kernel=difference.kernel,
        effect=difference.effect,
    )


def lowered(sentence: str) -> str:
    """The sentence as the end of another one: a word loses its capital, an abbreviation (SM, L2) keeps it."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence


def standing(rule: StateRule, kernel: KernelProfile, share: float) -> Finding | None:
    """The finding of one rule about one side; its weight is below 1, after everything that changed."""
    seen = rule.look(kernel)
    if seen is None:
        return None
    sure = {"high": 1.0, "medium": 0.7, "low": 0.4}[seen.confidence]
    return Finding(
        key=rule.key,
        what=seen.what,
        why=rule.why,
        advice=rule.advice,
        confidence=seen.confidence,
        weight=0.99 * sure * min(1.0, max(0.0, seen.potential)) * share,
        kernel=kernel.function,
    )


def confidence(part: float) -> Confidence:
    """Of a cause that explains ``part`` of the change."""
    if part >= WELL_EXPLAINED:
        return "high"
    return "medium" if part >= PARTLY_EXPLAINED else "low"
