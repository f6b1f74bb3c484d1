"""`ratchet check --against-baseline`: every case against the commit that the baseline names for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ratchet.errors import UsageError
from ratchet.forge.git import Snapshot
from ratchet.forge.worktrees import worktree
from ratchet.judge.drift import by_commit
from ratchet.measure.suite import Suite, list_cases
from ratchet.pipeline.site import Site, measure
from ratchet.records.baseline import BaselineEntry
from ratchet.records.run import CaseRun, Shard


def against_baseline(
    site: Site, stored: Mapping[str, BaselineEntry], patterns: Sequence[str], shard: Shard | None = None
) -> tuple[Suite, Snapshot]:
    """The head against one baseline commit after the other; the suite, and the commit that most cases were compared with.

    Raises UsageError where the baseline has nothing for this machine.
    """
    site.progress.stage("Listing the cases")
    listed = [case.name for case in list_cases(site.ground(None), site.settings, patterns)]
    gone = [name for name, entry in stored.items() if not entry.removed and name not in listed] if not patterns else []
    names = [*listed, *gone]
    groups = by_commit(shard.part(names) if shard else names, stored)
    if not groups:
        raise UsageError(
            "The baseline names no commit for this machine and these cases.",
            "Enter a first one with `ratchet check` and `ratchet baseline record`.",
        )
    suites: list[Suite] = []
    snapshots: list[Snapshot] = []
    for commit, names in groups.items():
        site.progress.stage(f"Comparing {len(names)} cases with the baseline commit {commit[:10]}")
        snapshots.append(site.repository.commit_snapshot(commit))
        with worktree(site.repository, site.trees, snapshots[-1]) as tree:
            suites.append(measure(site, snapshots[-1], tree, names))
    cases: list[CaseRun] = list(suites[0].cases)
    for suite, snapshot in zip(suites[1:], snapshots[1:], strict=True):
        cases += [case.model_copy(update={"reference_tree": snapshot.tree}) for case in suite.cases]
    missing = next((suite.reference_missing for suite in suites if suite.reference_missing), None)
    return replace(suites[0], cases=tuple(cases), reference_missing=missing), snapshots[0]
