"""Many small slowdowns: a change is held to the best commit of the baseline too, but only for a part that is its own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.core import units
from ratchet.core.judge.evidence import CaseThresholds
from ratchet.core.judge.outcome import Judgement, decide, digits_of
from ratchet.core.records.baseline import BaselineEntry
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import Comparison, Outcome

# All four are choices; what happens at half and at double of the first three stands in research/README.md.
NEAR = 0.8
"""Share of the gate that the known drift and this change must reach, for the best commit to be worth measuring against."""
OWN_LEVEL = 0.005
"""p-value up to which a slowdown is attributed to this change, at each look."""
OWN_PAIRS = 40
"""Pairs after which no more are measured to find out whether a slowdown is this change's own."""
POOLED = 3
"""Latest measurements of main against its best commit that are pooled."""


@dataclass(frozen=True)
class Drift:
    """The distance of main from the best commit of a case, as far as the baseline file knows it."""

    best: str
    """The best commit."""
    ratio: float | None
    """Time of main / time of the best commit, pooled over the latest merges; None where no merge was measured against it."""


def drifting(stored: Mapping[str, BaselineEntry], reference: Tree, head: Tree) -> dict[str, Drift]:
    """Return the cases whose best commit is neither side of this run: slowdowns since then may have added up."""
    sides = (reference.commit, head.commit)
    return {name: Drift(entry.git_commit, pooled(entry)) for name, entry in stored.items() if entry.git_commit not in sides}


def pooled(entry: BaselineEntry) -> float | None:
    """Return time of main / time of the best commit: of the newest merge, or the mean of the newest three if that is higher."""
    logs = [math.log(merge.measurement.ratio) for merge in entry.merges[-POOLED:]]
    return math.exp(max(logs[-1], statistics.fmean(logs))) if logs else None


def needs_best_comparison(own: Comparison, drift: Drift, policy: Policy) -> bool:
    """Return whether a case should be held to the best commit: this change slows it, and that may make it past the gate in all.

    Where nothing is known of the drift, a quarter of the gate from this change is what makes it worth looking.
    """
    if drift.ratio is None:
        near = own.ratio >= 1 + policy.part
    else:
        near = own.ratio > 1 and drift.ratio * own.ratio >= 1 + NEAR * policy.regression
    return near and (own.p_value <= OWN_LEVEL or (own.p_value < 0.5 and own.pairs < OWN_PAIRS))


def is_significant_alone(own: Comparison) -> bool:
    """Return whether this change is slower by itself, by however little."""
    return own.ratio > 1 and own.p_value <= OWN_LEVEL


def held_to_best(finding: Judgement, best: Comparison, tree: Tree, thresholds: CaseThresholds) -> Judgement:
    """Return the finding, turned red where the head is past the gate against the best commit and this change has a part in it."""
    outcome, _, own = finding
    if own is None or outcome not in (Outcome.UNCHANGED, Outcome.INCONCLUSIVE):
        return finding
    if not is_significant_alone(own) or decide(best, thresholds)[0] is not Outcome.REGRESSED:
        return finding
    here, whole = (units.percent(each.ratio - 1, digits_of(each, thresholds.policy)) for each in (own, best))
    gate = units.threshold(thresholds.policy.regression)
    reason = (
        f"Slower by {here} here, which makes it {whole} slower than the best commit {tree.commit[:10]}: past the gate of {gate}."
    )
    return Outcome.REGRESSED, reason, own


def by_commit(names: Sequence[str], stored: Mapping[str, BaselineEntry]) -> dict[str, list[str]]:
    """Map each baseline commit to its cases among ``names``, the commit of most cases first.

    Cases without a baseline commit join the first group. Empty where no case has one.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        if name in stored:
            groups.setdefault(stored[name].git_commit, []).append(name)
    ordered = dict(sorted(groups.items(), key=lambda item: -len(item[1])))
    for first in list(ordered.values())[:1]:
        first += [name for name in names if name not in stored]
    return ordered
