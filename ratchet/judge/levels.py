"""What each case's p-value must stay under, so that a whole run of unchanged code is rarely red."""

from __future__ import annotations

from collections.abc import Mapping

from ratchet.judge.looks import looks_for_change
from ratchet.records.policy import Policy
from ratchet.records.verdict import Comparison
from ratchet.stats.family import holm_levels


def shared(found: Mapping[str, Comparison | None], rule: Policy, pairs: int) -> dict[str, Policy]:
    """Each case's policy: all of them, at every look at up to ``pairs`` pairs, are falsely red as rarely as ``rule`` says.

    Valid though cases stop at different looks: a false red needs the p-value of some unchanged case to be, at one of its
    looks, under the level over the number of looks and of unchanged cases, which the union of all these bounds.
    """
    level = rule.false_alarm / looks_for_change(pairs)
    seen = {name: each for name, each in found.items() if each}
    slower, faster = (holm_levels([_chance(each, sign) for each in seen.values()], level) for sign in (1, -1))
    own = {
        name: rule.at(up if each.ratio >= 1 else down)
        for (name, each), up, down in zip(seen.items(), slower, faster, strict=True)
    }
    return dict.fromkeys(found, rule.shared(len(found), looks_for_change(pairs))) | own


def _chance(seen: Comparison, sign: int) -> float:
    """One-sided p-value of being slower (1) or faster (−1)."""
    return seen.chance if (seen.ratio - 1) * sign >= 0 else 1 - seen.chance
