"""Carry out `ratchet check`: two commits, one device, a verdict.

Read it from the top: make a plan, measure, judge, profile what changed. It locks devices, checks out trees in temporary
folders, builds them, starts processes that run their benchmarks, and saves the run in the results folder.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from ratchet import tools
from ratchet.core.bench.build import without_secrets
from ratchet.core.bench.cores import part_of_cores
from ratchet.core.bench.duet import Observer
from ratchet.core.bench.suite import CaseTask, Suite
from ratchet.core.command_result import record_of, save_files
from ratchet.core.config import Settings, load_settings
from ratchet.core.device.environment import installed_version
from ratchet.core.errors import ForeignModuleError, GitError, HostError, OutputError, UsageError
from ratchet.core.git import Repository, Snapshot, Trees, worktree, worktrees
from ratchet.core.judge.drift import Drift, by_commit, drifting
from ratchet.core.judge.gates import gated_overheads, with_case_gates
from ratchet.core.judge.rule import EveryPair, GateRule, Rule, looks, suspects
from ratchet.core.judge.verdict import judge_run
from ratchet.core.machine import Machine, SidePythons, environment_of, in_parallel, joined, machines_of, plan_of
from ratchet.core.records.baseline import Baseline, BaselineEntry
from ratchet.core.records.environment import summary
from ratchet.core.records.files import loads
from ratchet.core.records.run import CaseRun, Config, Failure, Plan, Shard, Side, Tree
from ratchet.core.report.progress import Progress
from ratchet.core.report.words import commit_label
from ratchet.core.request import (
    BASELINE,
    CommandResult,
    Request,
    load_baseline,
    own_output_globs,
    reference_of,
    watched,
    writable,
)
from ratchet.core.trees import build, cases_of, differing_settings, measure, need_benchmarks, tree_specs, unmeasured
from ratchet.core.units import listed, plural


@dataclass(frozen=True)
class CheckPlan:
    """The plan of a check, known before anything is measured."""

    repository: Repository
    settings: Settings
    results: Path
    baseline: Baseline
    head: Snapshot
    reference: Snapshot | None
    """None: each case is compared with the commit that the baseline names for it."""
    bench_from: Literal["head"] | None
    patterns: tuple[str, ...]
    shard: Shard | None
    environ: Mapping[str, str]
    """The variables for child programs: they hold no secrets."""
    gating: Baseline = field(default_factory=Baseline)
    """The file that names gates of cases: the reference's, since a change must not raise its own."""

    def snapshot(self, revision: str) -> Snapshot:
        """Return a commit to compare with, if so asked with the benchmarks of the head in place of its own."""
        return self.repository.commit_with(revision, self.head if self.bench_from else None, self.settings.bench)


@dataclass(frozen=True)
class CheckSuite:
    """The suite of a check, and the commit that most of its cases were compared with."""

    suite: Suite
    reference: Tree | None
    best: Sequence[CaseRun] = ()
    """Cases that became a little slower, each measured against its best commit too."""
    anchors: Sequence[CaseRun] = ()
    """Cases measured against the fixed commit that the history counts from."""


def check(request: Request, progress: Progress, environ: Mapping[str, str]) -> CommandResult:
    """Compare the checkout with a reference commit on one device, judge every case, and profile those that changed.

    Raises UsageError for a wrong request, BusyError and UnfitError for the device, HostError where the benchmarks cannot be
    measured at all. Trouble with one case stays in its record; harm to the repository is in `CommandResult.damage`.
    """
    plan = _plan(request, environ)
    pythons: SidePythons = tools.part("environments").side_pythons(request.environments, plan.environ, progress)
    changed = " + uncommitted changes" if plan.head.tree.dirty else ""
    against = commit_label(plan.reference.tree) if plan.reference else "the commit that the baseline names for each case"
    differs = f", {summary(pythons.differs)}" if pythons.differs else ""
    progress.begin(f"{commit_label(plan.head.tree)}{changed} against {against}{differs}")
    root, began = plan.repository.root, (datetime.now(UTC), time.monotonic())
    with (
        machines_of(request.devices, plan.settings, f"ratchet check in {root}", progress, environ, pythons) as held,
        worktrees(plan.repository, plan.head, plan.reference) as trees,
        watched(root, plan.results, progress) as watch,
        _explainer_of(plan, held[0], trees, progress) as explainer,
    ):
        machines = (joined(held),) if plan.settings.command else held
        done = Comparer(plan, machines, trees, progress, explainer).check(request.command, began, mixed=bool(pythons.differs))
        changes = watch.changes()
    return done.with_changes(*changes)


def compare_commits(
    plan: CheckPlan, command: tuple[str, ...], machine: Machine, trees: Trees, progress: Progress, began: tuple[datetime, float]
) -> CommandResult:
    """Compare the plan's two commits, of which the head is built, as `check` does. ``began``: when, and `time.monotonic` then."""
    with _explainer_of(plan, machine, trees, progress) as explainer:
        comparer = Comparer(plan, (machine,), trees, progress, explainer)
        reference = cast(Snapshot, plan.reference)
        suite = comparer.compare(reference, trees.reference, plan.patterns, explained="early")
        return comparer.judge_and_explain(command, CheckSuite(suite, reference.tree), began)


def _explainer_of(plan: CheckPlan, machine: Machine, trees: Trees, progress: Progress) -> Any:
    """Return what explains the changes of a check: a context manager whose ``observer`` looks on while cases are measured."""
    part = tools.part("explainer")
    return part.Explainer(part.ProfileSite(plan.repository, plan.settings, machine, trees, progress, plan.environ))


def _plan(request: Request, environ: Mapping[str, str]) -> CheckPlan:
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    if settings.command:  # another harness: its kernels are not ours to launch under a profiler
        settings = settings.model_copy(update={"profile": "never"})
    else:
        need_benchmarks(settings, repository.root, repository.root)
    if request.shard:  # all shards together may be falsely red no more often than one whole check
        settings = settings.model_copy(update={"false_alarm": settings.false_alarm / request.shard.of})
    if request.environments:  # what a build kept for one environment may not fit another
        settings = settings.model_copy(update={"build_cache": False})
    results = writable(repository.root / settings.results)
    baseline = Baseline() if request.environments else load_baseline(results)
    head = repository.working_snapshot(own_output_globs(repository, results))
    plan = CheckPlan(
        repository,
        settings,
        results,
        baseline,
        head,
        None,
        request.bench_from,
        request.patterns,
        request.shard,
        without_secrets(environ),
        baseline,
    )
    if request.against_baseline:
        return plan
    reference = head
    if not request.environments or request.base or request.merge_base:  # else two environments run the same commit
        reference = plan.snapshot(reference_of(request, repository, head))
    if reference.revision == head.revision and not (settings.time_identical or request.environments):
        raise UsageError(
            f"{commit_label(head.tree)} would be compared with itself.",
            "Name another commit with --base, or add --time-identical to time it against itself.",
        )
    return replace(plan, reference=reference, gating=_gating(plan, reference))


def _gating(plan: CheckPlan, reference: Snapshot) -> Baseline:
    """Return the reference's baseline where gates follow it; the checkout's where the reference has none."""
    follows = plan.settings.policy.follows_history and plan.baseline.fingerprints
    name = f"{plan.settings.results}/{BASELINE}"
    content = plan.repository.file_in(reference.revision, name) if follows else None
    return loads(content, f"{name} of {commit_label(reference.tree)}", Baseline) if content else plan.baseline


class Comparer:
    """The measurement of a plan's head on machines that are held, against one reference or several, one after the other."""

    def __init__(
        self, plan: CheckPlan, machines: Sequence[Machine], trees: Trees, progress: Progress, explainer: Any = None
    ) -> None:
        """``explainer`` is what `_explainer_of` returns; None: nobody explains what changed."""
        self._plan, self._settings, self._machines, self._trees = plan, plan.settings, machines, trees
        self._progress, self._explainer = progress, explainer
        self._fingerprint = environment_of(machines[0]).fingerprint
        self.policy = with_case_gates(plan.settings.policy, plan.gating.entries(self._fingerprint))

    def check(self, command: tuple[str, ...], began: tuple[datetime, float], *, mixed: bool) -> CommandResult:
        """Measure, judge and explain, as `measure` and `judge_and_explain` say. ``mixed``: what is installed differs by side."""
        plan, measured = self._plan, self.measure()
        reference = None if mixed else plan.reference
        warnings = unmeasured(plan.repository, plan.head, reference, plan.settings.project, self._trees.head)
        if plan.shard and not measured.suite.cases:
            raise _empty(plan.shard)
        suite = replace(measured.suite, notes=(*measured.suite.notes, *warnings))
        return self.judge_and_explain(command, replace(measured, suite=suite), began)

    def measure(self) -> CheckSuite:
        """Build the head, and measure it against the plan's reference or the baseline's commits; UsageError if that has none."""
        plan, trees = self._plan, self._trees
        if broken := build(self._settings, "head", trees.head, plan.head, self._progress, self._variables("head")):
            # A head that does not build is red: one failed entry stands for all its cases.
            failure = Failure(side="head", stage="build", message=broken.message)
            case = CaseRun(name="build/*", benchmark="build", config=Config(name="*"), failures=(failure,))
            unbuilt = Suite((case,), torch=installed_version("torch") or "", cuda=None, triton=None)
            return CheckSuite(unbuilt, plan.reference.tree if plan.reference else None)
        stored = {**plan.baseline.carried(self._fingerprint), **plan.baseline.entries(self._fingerprint)}
        if plan.reference is None:
            return self._against_baseline(stored)
        drifts = drifting(stored, plan.reference.tree, plan.head.tree)
        suite = self.compare(plan.reference, trees.reference, plan.patterns, drifts=drifts, shard=plan.shard, explained="early")
        best, notes = self._against_best(suite.cases, drifts)
        return CheckSuite(replace(suite, notes=(*suite.notes, *notes)), plan.reference.tree, best)

    def _variables(self, side: Side) -> Mapping[str, str]:
        return self._machines[0].pythons.variables(side, self._plan.environ)

    def _against_baseline(self, stored: Mapping[str, BaselineEntry]) -> CheckSuite:
        plan = self._plan
        self._progress.stage("Listing the cases")
        head = tree_specs(self._settings, self._machines[0], plan.repository.root, self._trees.head)["head"]
        names = [case.name for case in cases_of(self._settings, head, plan.patterns, plan.environ)]
        if not plan.patterns:
            names += [name for name, entry in stored.items() if not entry.removed and name not in names]
        most = next(iter(by_commit(names, stored)), None)  # of all shards, which have the same reference then
        if most is None:
            raise UsageError(
                "The baseline names no commit for this machine and these cases.",
                "Enter a first one with `ratchet check` and `ratchet baseline record`.",
            )
        if plan.shard and not (names := plan.shard.part(names)):
            raise _empty(plan.shard)
        suites: list[Suite] = []
        cases: dict[str, CaseRun] = {}  # a broken file, as `file/*`, brings its cases of other groups, too
        groups = by_commit(names, stored) or {most: names}
        snapshots = {commit: plan.snapshot(commit) for commit in (most, *groups)}  # one may be gone: know it before measuring
        for commit, group in groups.items():
            self._progress.stage(f"Comparing {plural(len(group), 'case')} with the baseline commit {commit[:10]}")
            with worktree(plan.repository, self._trees, snapshots[commit]) as tree:
                suites.append(self.compare(snapshots[commit], tree, group, explained="late", share=len(group) / len(names)))
            other = {"reference_tree": snapshots[commit].tree} if commit != most else {}
            cases |= {case.name: case.model_copy(update=other) for case in suites[-1].cases}
        missing = next((suite.reference_missing for suite in suites if suite.reference_missing), None)
        notes = tuple(dict.fromkeys(note for suite in suites for note in suite.notes))
        suite = replace(suites[0], cases=tuple(cases.values()), reference_missing=missing, notes=notes)
        anchors: list[CaseRun] = []
        if not plan.head.tree.dirty:
            sides = plan.head.tree, snapshots[most].tree
            anchors = tools.part("anchors").against_anchors(suite.cases, stored, sides, self._against_commit, self._progress)
        return CheckSuite(suite, snapshots[most].tree, anchors=anchors)

    def _against_commit(self, commit: str, names: Sequence[str], pairs: int | None = None, share: float = 1.0) -> list[CaseRun]:
        """Measure these cases against a commit, as `compare` says.

        Raises BuildError, ForeignModuleError, GitError, HostError and UsageError where that cannot be done.
        """
        reference = self._plan.snapshot(commit)
        with worktree(self._plan.repository, self._trees, reference) as tree:
            suite = self.compare(reference, tree, names, pairs=pairs, share=share)
        return [case.model_copy(update={"reference_tree": reference.tree}) for case in suite.cases]

    def _against_best(self, cases: Sequence[CaseRun], drifts: Mapping[str, Drift]) -> tuple[list[CaseRun], list[str]]:
        """Measure the cases that this change slowed a little against their best commits. Return those and why others were not."""
        measured: list[CaseRun] = []
        notes: list[str] = []
        judged = len(cases) if self._plan.shard else sum(bool(case.reference) for case in cases)
        for commit, names in suspects(cases, self.policy, self._settings.pairs, drifts).items():
            self._progress.stage(f"Comparing {plural(len(names), 'slower case')} with the best commit {commit[:10]}")
            try:
                measured += self._against_commit(commit, names, share=len(names) / (judged + 1))
            except (ForeignModuleError, GitError, HostError, UsageError) as error:  # it was lost; all that was measured stands
                notes.append(f"Not compared with the best commit {commit[:10]}: {listed(names, 3)}. {error.message}")
        return measured, notes

    def compare(
        self,
        reference: Snapshot,
        tree: Path | None,
        patterns: Sequence[str],
        *,
        drifts: Mapping[str, Drift] | None = None,
        shard: Shard | None = None,
        pairs: int | None = None,
        explained: Literal["no", "late", "early"] = "no",
        share: float = 1.0,
    ) -> Suite:
        """Build the reference in its tree and measure the head against it, or alone where it does not build; on all machines.

        ``pairs``: so many for each case, for a figure without a verdict; raises BuildError if the reference does not build then.
        ``explained``: whether what changed is profiled; early: in these two trees, as soon as a case looks changed.
        ``share``: these cases' share of all that are judged together. With the evidence for a smaller run none would be red.
        """
        plan, settings, machines = self._plan, self._settings, self._machines
        unbuilt = build(settings, "reference", tree, reference, self._progress, self._variables("reference")) if tree else None
        if unbuilt and pairs:
            raise unbuilt
        built = None if unbuilt else tree
        timing = plan_of(settings, machines[0].device, sessions=True)
        share /= len(machines)  # all of them together may be falsely red no more often than one
        policy = self.policy.model_copy(update={"false_alarm": self.policy.false_alarm * share})
        rule: Rule = GateRule(policy, timing.pairs, drifts or {}, is_part=share < 1 or plan.shard is not None)
        explainer = self._explainer if explained != "no" else None
        early = explained == "early" and len(machines) == 1 and built is not None

        def measure_part(machine: Machine, shard: Shard, progress: Progress) -> Suite:
            task = replace(
                task_of(settings, machine, timing, patterns, EveryPair(looks(min(pairs, timing.pairs))) if pairs else rule),
                compared=not unbuilt,
                time_identical=settings.time_identical,
                shard=shard,
                cores=part_of_cores(machines.index(machine), len(machines)),
                observer=explainer.observer(policy, timing.pairs, early=early) if explainer else Observer(),
                overheads=gated_overheads(policy) if explained != "no" else (),
            )
            specs = tree_specs(settings, machine, plan.repository.root, self._trees.head, built)
            return measure(settings, specs, task, progress, plan.environ)

        count, whole = len(machines), shard or Shard(number=1, of=1)
        shards = [Shard(number=whole.number + index * whole.of, of=whole.of * count) for index in range(count)]
        suites = in_parallel(measure_part, list(zip(machines, shards, strict=True)), self._progress)
        cases = tuple(case for suite in suites for case in suite.cases)
        missing = str(unbuilt) if unbuilt else suites[0].reference_missing
        notes = dict.fromkeys(note for suite in suites for note in suite.notes)
        differing = differing_settings(settings, plan.repository, plan.head, reference)
        return replace(suites[0], cases=cases, reference_missing=missing, notes=(*notes, *differing))

    def judge_and_explain(self, command: tuple[str, ...], measured: CheckSuite, began: tuple[datetime, float]) -> CommandResult:
        """Save what was measured, judge it and profile what changed, which takes the trees, and the device to itself."""
        plan = self._plan
        record = record_of(
            "check",
            command,
            plan.settings,
            self._machines[0],
            measured.suite,
            (began[0], time.monotonic() - began[1]),
            plan.head.tree,
            measured.reference,
            best=measured.best,
            anchors=measured.anchors,
            shard=plan.shard,
            bench_from=plan.bench_from,
        )
        cards = tuple(gpu.card() for machine in self._machines for gpu in machine.gpus)
        environment = record.environment.model_copy(update={"cards": cards})
        record = record.model_copy(update={"environment": environment, "policy": self.policy})
        done = CommandResult(record, judge_run(record, plan.baseline), plan.results)
        with contextlib.suppress(OutputError):  # so that interrupted profiling costs no samples; `write` reports a full disk
            save_files(done)
        return replace(done, report=self._explainer.explain(done.report, record, plan.baseline, plan.results))


def _empty(shard: Shard) -> UsageError:
    return UsageError(f"Shard {shard} has no case: there are fewer cases than shards.", "Take fewer shards.")


def task_of(settings: Settings, machine: Machine, timing: Plan, patterns: Sequence[str], rule: Rule) -> CaseTask:
    """Return what a check, and `ratchet doctor soak`, measures on one machine."""
    return CaseTask(timing, patterns, settings.confidence, rule, gpu=machine.gpu, idle=machine.idle)
