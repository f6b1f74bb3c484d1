"""Many small slowdowns: a change is held to the best commit of the baseline too, but only for a part that is its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet import units
from ratchet.judge.outcome import Finding, decide
from ratchet.records.baseline import BaselineEntry
from ratchet.records.policy import Policy
from ratchet.records.run import Tree
from ratchet.records.verdict import Comparison, Outcome

DOUBT = 0.05
"""A p-value below which a small slowdown may be real, and is worth more pairs."""


def adds_up(own: Comparison, policy: Policy) -> bool | None:
    """Whether a change slowed a case by a part that counts: a quarter of the gate, ruled not to be chance. None: not known yet.

    ``policy`` holds this case's share of the false alarms.
    """
    if own.ratio < 1 + policy.part or own.chance > DOUBT:
        return False
    return True if own.chance <= policy.false_alarm else None


def drifting(stored: Mapping[str, BaselineEntry], reference: Tree, head: Tree) -> dict[str, str]:
    """Cases whose best commit is neither side of this run → that commit: slowdowns since then may have added up."""
    sides = (reference.commit, head.commit)
    return {name: entry.git_commit for name, entry in stored.items() if entry.git_commit not in sides}


def by_commit(names: Sequence[str], stored: Mapping[str, BaselineEntry]) -> dict[str, list[str]]:
    """Baseline commit → its cases among ``names``, the commit of most cases first; those without one go with that.

    Empty where none has one.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        if name in stored:
            found.setdefault(stored[name].git_commit, []).append(name)
    ordered = dict(sorted(found.items(), key=lambda item: -len(item[1])))
    for first in list(ordered.values())[:1]:
        first += [name for name in names if name not in stored]
    return ordered


def held_to_best(finding: Finding, best: Comparison, tree: Tree, policy: Policy) -> Finding:
    """The finding, turned red where head is past the gate against the best commit and this change has a part in it."""
    outcome, _, own = finding
    if own is None or outcome not in (Outcome.UNCHANGED, Outcome.INCONCLUSIVE):
        return finding
    if not adds_up(own, policy) or decide(best, policy)[0] is not Outcome.REGRESSED:
        return finding
    here, whole = units.percent(own.ratio - 1, 2), units.percent(best.ratio - 1, 2)
    gate = units.threshold(policy.regression)
    reason = (
        f"Slower by {here} here, which makes it {whole} slower than the best commit {tree.commit[:10]}: past the gate of {gate}."
    )
    return Outcome.REGRESSED, reason, own
