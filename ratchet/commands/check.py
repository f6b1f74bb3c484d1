"""`ratchet check`: two commits, one device, a verdict."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ratchet.commands.machine import environment_of, machines_of
from ratchet.commands.output import record_of
from ratchet.commands.profile.cases import with_profiles
from ratchet.commands.request import CURRENT, Done, Request, apart_of, load_baseline, watched, writable
from ratchet.commands.trees import Site, build, measure, unbuilt
from ratchet.config import Settings, load_settings
from ratchet.errors import GitError, OutputError, UsageError
from ratchet.forge.git import Repository, Snapshot, worktree, worktrees
from ratchet.judge.drift import Drift, by_commit, drifting
from ratchet.judge.sequential import suspects
from ratchet.judge.verdict import judge_run
from ratchet.measure.suite import Suite, list_cases
from ratchet.records.baseline import BaselineEntry
from ratchet.records.files import save
from ratchet.records.run import CaseRun, Shard
from ratchet.report.progress import Progress


def check(request: Request, progress: Progress, environ: Mapping[str, str]) -> Done:
    """Compare the checkout with a reference commit on one device, judge every case, and profile those that changed.

    A case that became a little slower is measured against the best commit of the baseline too.
    """
    repository = Repository(request.folder)
    settings = _of_shard(load_settings(repository.root, environ, request.options), request.shard)
    results = writable(repository.root / settings.results)
    baseline = load_baseline(results)
    apart = apart_of(repository, results)
    head = repository.working_snapshot(apart)
    reference = None if request.against_baseline else repository.commit_snapshot(reference_of(request, repository, head))
    clock, started = time.monotonic(), datetime.now(UTC)
    best: list[CaseRun] = []
    with (
        machines_of(request, settings, f"ratchet check in {repository.root}", progress, environ) as (machine, *others),
        worktrees(repository, head, reference) as trees,
        watched(repository.root, results, progress) as watch,
    ):
        site = Site(repository, settings, machine, trees, progress, environ, tuple(others))
        fingerprint = environment_of(machine, settings).fingerprint
        stored = {**baseline.carried(fingerprint), **baseline.entries(fingerprint)}
        broken = build(site, "head", trees.head, head)
        if broken:
            suite = unbuilt(broken)
        elif reference is None:
            suite, reference = against_baseline(site, stored, request.patterns, request.shard)
        else:
            drifts = drifting(stored, reference.tree, head.tree)
            suite = measure(site, reference, trees.reference, request.patterns, drifts, request.shard)
            best = _against_best(site, suite.cases, drifts)
        if request.shard and not suite.cases:
            raise UsageError(f"Shard {request.shard} has no case: there are fewer cases than shards.", "Take fewer shards.")
        timing = (started, time.monotonic() - clock)
        compared_with = reference.tree if reference else None
        record = record_of("check", request, settings, machine, suite, timing, head.tree, compared_with, best)
        with contextlib.suppress(OutputError):  # whoever interrupts the profiling has the samples; `write` tells of a full disk
            save(results / CURRENT, record)
        # Here, since a profile needs the trees, and the device to itself.
        report = with_profiles(site, judge_run(record, baseline), record, baseline, results)
        changes = watch.changes()
    return Done(record, report, results).with_changes(changes.notes, changes.damage)


def _of_shard(settings: Settings, shard: Shard | None) -> Settings:
    """A shard gets its share of the false alarms: all of them together are falsely red no more often than the whole may be."""
    return settings.model_copy(update={"false_alarm": settings.false_alarm / shard.of}) if shard else settings


def _against_best(site: Site, cases: Sequence[CaseRun], drifts: Mapping[str, Drift]) -> list[CaseRun]:
    """The cases that this change slowed a little, each against the best commit that the baseline has for it."""
    found: list[CaseRun] = []
    for commit, names in suspects(cases, site.settings.policy, site.settings.pairs, drifts).items():
        cases_text = f"{len(names)} slower case{'' if len(names) == 1 else 's'}"
        site.progress.stage(f"Comparing {cases_text} with the best commit {commit[:10]}")
        try:
            best = site.repository.commit_snapshot(commit)
        except (GitError, UsageError):  # of a history that was rewritten, or a shallow clone: there is nothing to hold it to
            continue
        with worktree(site.repository, site.trees, best) as tree:
            suite = measure(site, best, tree, names)
        found += [case.model_copy(update={"reference_tree": best.tree}) for case in suite.cases]
    return found


def reference_of(request: Request, repository: Repository, head: Snapshot) -> str:
    """The commit to compare with: the one named, else HEAD for uncommitted changes, else the commit before."""
    if request.base:
        return repository.resolve(request.base)
    if request.merge_base:
        return repository.merge_base(request.merge_base)
    return head.tree.commit if head.tree.dirty else repository.previous()


# `ratchet check --against-baseline`: every case against the commit that the baseline names for it.


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
