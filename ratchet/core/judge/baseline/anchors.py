"""Earlier baseline commits that a case is measured against once more, so that its steps add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet.core.records.baseline import BaselineEntry, StepKind

ANCHOR_PAIRS = 16
"""Pairs that a case gets against its anchor. No verdict ends them early: else the index would lean to where it was decided."""


def anchors_of(entry: BaselineEntry) -> list[str]:
    """Return the commits that can be the anchor of a case, the best one first.

    That is the first commit of its chain, since the workload last changed and under its present name. The later ones of the chain
    stand in where an earlier one cannot be built any more.
    """
    commits: list[str] = []
    for step in entry.steps:
        if step.kind in (StepKind.FIRST, StepKind.CHANGED, StepKind.RENAMED):
            commits = []
        if step.kind in (StepKind.FIRST, StepKind.CHANGED, StepKind.IMPROVED, StepKind.ACCEPTED):
            commits.append(step.commit)
    return list(dict.fromkeys(commits))


def by_anchor(waiting: Mapping[str, Sequence[str]], compared: Mapping[str, str], head: str) -> dict[str, list[str]]:
    """Map each commit to the cases to measure against it: those whose first anchor it is.

    A case that was compared with its anchor (``compared``: name → commit), or whose anchor is the head itself, is done.
    """
    groups: dict[str, list[str]] = {}
    for name, anchors in waiting.items():
        if anchors and anchors[0] not in (compared.get(name), head):
            groups.setdefault(anchors[0], []).append(name)
    return groups
