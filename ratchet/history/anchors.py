"""Anchors: earlier baseline commits that a case is measured against once more, so that the steps of its history add up.

A check of the baseline's commits calls `against_anchors` through `ratchet.tools`. It measures through what the check gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ratchet.core.errors import BuildError, ForeignModuleError, GitError, HostError, UsageError
from ratchet.core.records.baseline import BaselineEntry, StepKind
from ratchet.core.records.run import CaseRun, Tree
from ratchet.core.report.progress import Progress
from ratchet.core.units import plural

ANCHOR_PAIRS = 16
"""Pairs that a case gets against its anchor. No verdict ends them early: else the index would lean to where it was decided."""


def against_anchors(
    cases: Sequence[CaseRun],
    stored: Mapping[str, BaselineEntry],
    sides: tuple[Tree, Tree],
    compare: Callable[[str, Sequence[str], int], list[CaseRun]],
    progress: Progress,
) -> list[CaseRun]:
    """Measure each case against the first commit of its chain, or against the next one that can be built and measured.

    ``sides`` are the head and the reference of the ``cases``; a case with another reference says so. ``compare`` measures cases
    of these names against a commit, with so many pairs of each.
    """
    head, reference = sides
    done = [case for case in cases if case.head or case.identical]
    waiting = {case.name: anchors_of(stored[case.name]) for case in done if case.name in stored}
    compared = {case.name: (case.reference_tree or reference).commit for case in done if case.reference or case.identical}
    measured: dict[str, CaseRun] = {}
    while groups := by_anchor(waiting, compared, head.commit):
        for commit, names in groups.items():
            progress.stage(f"Comparing {plural(len(names), 'case')} with the anchor of the history, {commit[:10]}")
            for name in names:
                waiting[name] = waiting[name][1:]
            try:
                against = compare(commit, names, ANCHOR_PAIRS)
            except (BuildError, ForeignModuleError, GitError, HostError, UsageError) as error:  # the check itself is complete
                progress.stage(f"The anchor {commit[:10]} cannot be measured: {error.message}")
                continue
            for case in against:
                if case.reference or case.identical:
                    measured[case.name] = case
                    del waiting[case.name]
    return list(measured.values())


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
