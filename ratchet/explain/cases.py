"""Profile cases on both sides: after a verdict those that changed, or those that a user named, without timing any.

`ratchet check` uses an `Explainer`; the command line calls `profile`, or `read_profiles` for report files. The cases of one
reference are profiled together (`sides`). It may check out and build trees, locks the device for `profile`, runs profilers as
child processes, and writes ``results/nsight/`` through `results`. Any error is a sentence in the profile; it never costs a
verdict.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

from ratchet.common.launch_pairs import matched
from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.duet import Duet, Observer, open_bench
from ratchet.core.bench.suite import list_cases
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.git import Repository, Trees, worktree, worktrees
from ratchet.core.judge.rule import likely_changed
from ratchet.core.judge.verdict import changed_cases, worst_first
from ratchet.core.machine import Machine, environment_of, machine_of, plan_of
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.run import CaseRun, Plan, Policy, RunRecord, Side, Tree
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, load_baseline, own_output_globs, reference_of, watched, writable
from ratchet.core.trees import build, tree_spec, tree_specs
from ratchet.core.units import plural
from ratchet.explain.diagnosis import diagnose
from ratchet.explain.ncu import NcuOptions, SetName
from ratchet.explain.readers import read
from ratchet.explain.results import Background, add_to_index, background_of, diagnosed, save_case
from ratchet.explain.sides import ProfileRequest, SideProfile, TimeBudget, WaitingProfilers, profile_sides, start_profilers
from ratchet.explain.traces import SideTrace, trace


def profile(
    request: Request, set_name: SetName, progress: Progress, environ: Mapping[str, str], *, compare: bool
) -> tuple[list[CaseProfile], Path]:
    """Profile the named cases of the checkout; with ``compare``, those of a reference commit too.

    Return the profiles, and the folder that the paths in them are relative to.
    Raises UsageError where no case matches, BuildError where the head does not build, BusyError and UnfitError for the device.
    """
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    results = writable(repository.root / settings.results)
    baseline = load_baseline(results)
    apart = own_output_globs(repository, results)
    wants_commit = compare and not request.against_baseline
    head = repository.working_snapshot(apart)
    reference = repository.commit_snapshot(reference_of(request, repository, head)) if wants_commit else None
    with (
        machine_of(request.devices, settings, f"ratchet profile in {repository.root}", progress, environ) as machine,
        worktrees(repository, head, reference) as trees,
        watched(repository.root, results, progress),
    ):
        site = ProfileSite(repository, settings, machine, trees, progress, environ)
        broken = build(settings, "head", trees.head, head, progress, environ)
        if broken:
            raise broken
        unbuilt = None
        if reference and trees.reference:
            unbuilt = build(settings, "reference", trees.reference, reference, progress, environ)
        listed = list_cases(tree_specs(settings, machine, repository.root, trees.head)["head"], request.patterns, environ)
        environment = environment_of(machine)
        stored = baseline.entries(environment.fingerprint)
        options = NcuOptions(set_name, settings.cache == "cold")
        wanted = []
        for case in listed:
            tree, why = (reference.tree if reference else None), str(unbuilt or "")
            if request.against_baseline:
                entry = stored.get(case.name)
                tree = Tree(commit=entry.git_commit) if entry else None
                why = "" if entry else f"The baseline has no commit for {case.name} on this machine."
            verdict = CaseVerdict(name=case.name, outcome=Outcome.MEASURED, reason="Profiled only; nothing was timed.")
            wanted.append(CaseToProfile(verdict, options, None, None if why else tree, why))
        if not wanted:
            raise UsageError("No case matches.", "`ratchet doctor cases` shows what there is.")
        background = background_of(None, environment, datetime.now(UTC), baseline, results)
        context = ProfileContext(site, head.tree, reference.tree if reference else None, background)
        return profile_cases(context, wanted), results


# `ratchet profile --read`: one report file, or two beside each other; nothing is measured.


def read_profiles(paths: Sequence[Path], environ: Mapping[str, str]) -> CaseProfile:
    """Read the report of a head, or of a reference and a head in this order, and say what they show.

    Raises UsageError for another number of files, RecordError and ProfileError where one cannot be read.
    """
    if not 1 <= len(paths) <= 2:
        raise UsageError(f"--read takes one report, or a reference and a head, not {len(paths)} files.")
    *references, head = [read(path, environ) for path in paths]
    reference = references[0] if references else None
    notes = []
    if reference and None not in (reference.gpu, head.gpu) and reference.gpu != head.gpu:
        notes.append(
            f"The reports are from different GPUs ({reference.gpu} and {head.gpu}), so their figures also compare the GPUs."
        )
    if reference and not any(one and other for one, other in matched(head, reference)):
        notes.append("The reports have no kernel name in common, so nothing is compared.")
    return CaseProfile(
        case=str(paths[-1]),
        head=head,
        reference=reference,
        findings=diagnose(head, reference),
        steps_down=tuple(notes),
    )


# The cases of a command, one reference after the other.

NOTHING_SEEN = "No profiler recorded anything."


@dataclass(frozen=True)
class Traces:
    """The activities that torch.profiler saw of cases, in workers of hosts that had imported the trees anyway."""

    cases: Mapping[str, Mapping[Side, SideTrace]] = field(default_factory=dict)
    import_s: float = 0.0
    """Seconds that importing a tree took; of the slower side."""

    def joined(self, other: Traces) -> Traces:
        return Traces({**self.cases, **other.cases}, max(self.import_s, other.import_s))


NO_TRACES = Traces()


@dataclass(frozen=True)
class CaseToProfile:
    """One case to profile."""

    verdict: CaseVerdict
    options: NcuOptions
    case: CaseRun | None = None
    """The measurement of the case."""
    reference: Tree | None = None
    no_reference: str = ""
    """Why the head cannot be compared with a reference, where it should be."""


@dataclass(frozen=True)
class ProfileSite:
    """The place where cases are profiled: the trees, the machine, and the settings for building a reference there."""

    repository: Repository
    settings: Settings
    machine: Machine
    trees: Trees
    progress: Progress
    environ: Mapping[str, str]


@dataclass(frozen=True)
class ProfileContext:
    """The trees and facts that all profiles of a command share."""

    site: ProfileSite
    head: Tree
    reference: Tree | None
    """The tree that is checked out beside the head."""
    background: Background


class Explainer:
    """The profiles of one check, as its observers and after its verdict. Use it as a context manager, which ends profilers.

    Importing a large package takes longer than the replays, and ncu needs processes of its own. So profilers may start before
    the verdict: they import while the last pairs are measured, on other cores, and touch the GPU only once the verdict is known.
    """

    def __init__(self, site: ProfileSite) -> None:
        self._site = site
        self._running = contextlib.ExitStack()
        self._ready: WaitingProfilers | None = None
        self._observers: list[ProfileObserver] = []

    def __enter__(self) -> Explainer:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def observer(self, policy: Policy, pairs: int, *, early: bool) -> Observer:
        """Return what observes one measurement. ``early``: profilers may start for what it saw, in the trees of the site."""
        settings = self._site.settings
        most = settings.profile_cases if settings.profile == "auto" else 0
        self._observers.append(ProfileObserver(policy, pairs, most, self._start if early else None))
        return self._observers[-1]

    def _start(self, cases: Sequence[CaseRun], traces: Traces) -> None:
        """Start profilers for those of the cases that were traced, on both sides."""
        options = {case.name: _options_of(case) for case in cases if case.name in traces.cases}
        budget = TimeBudget(self._site.settings.profile_timeout, traces.import_s)
        with contextlib.suppress(OSError):  # a full disk, say: then `profile_sides` starts others, and says what fails
            request = _request(self._site, self._site.trees.reference, budget)
            self._ready = start_profilers(request, options, traces.cases, self._running)

    def explain(self, report: ReportRecord, run: RunRecord, baseline: Baseline, results: Path) -> ReportRecord:
        """Return the report with a profile of each case that changed, as far as the settings allow; the worst first."""
        changed = worst_first(report.cases)
        if self._site.settings.profile == "never" or not changed:
            return report
        chosen = changed[: self._site.settings.profile_cases]
        background = background_of(run, run.environment, run.started_at, baseline, results)
        context = ProfileContext(self._site, run.head, run.reference, background)
        traces = reduce(Traces.joined, (observer.traces for observer in self._observers), NO_TRACES)
        taken = profile_cases(context, [_wanted(verdict, run) for verdict in chosen], traces, self._ready)
        left_out = tuple(verdict.name for verdict in changed[len(chosen) :])
        return report.model_copy(update={"profiles": tuple(taken), "unprofiled": left_out})


class ProfileObserver(Observer):
    """Traces of what changed, for profiles, and early ones with which profilers can start while pairs are measured."""

    def __init__(self, policy: Policy, pairs: int, most: int, start: Callable[[Sequence[CaseRun], Traces], None] | None) -> None:
        """``most``: cases that are profiled, at most. ``start`` takes early traces; None: none are made."""
        self.traces = NO_TRACES
        self._policy, self._pairs, self._most, self._start = policy, pairs, most, start

    def before_pairs(self, duet: Duet, cases: Sequence[CaseRun], compared: Collection[str]) -> None:
        """Trace all cases that may differ, if they are few."""
        self._trace_early(duet, cases, [case.name for case in cases if case.name in compared])

    def between_sessions(self, duet: Duet, cases: Sequence[CaseRun], going: Collection[str]) -> None:
        """Trace those that look changed by now, unless that was done before the first pair."""
        if not self.traces.cases:
            changed = likely_changed(cases, self._policy)[: self._most]
            self._trace_early(duet, cases, [name for name in changed if name in going])

    def after_pairs(self, duet: Duet, cases: Sequence[CaseRun]) -> None:
        """Trace those that changed, unless that was done before."""
        changed = changed_cases(cases, self._policy, self._pairs)[: self._most]
        self.traces = self.traces.joined(_traced(duet, [name for name in changed if name not in self.traces.cases]))

    def _trace_early(self, duet: Duet, cases: Sequence[CaseRun], names: Sequence[str]) -> None:
        if self._start and 0 < len(names) <= self._most:
            self.traces = _traced(duet, names)
            self._start(cases, self.traces)


def _traced(duet: Duet, cases: Sequence[str]) -> Traces:
    """Trace cases on both sides. Trouble is in the traces."""
    traces: dict[str, dict[Side, SideTrace]] = {name: {} for name in cases}
    for side, host in duet.hosts.items() if cases else ():
        duet.progress.stage(f"Tracing {plural(len(cases), 'case')} of the {side}")
        try:
            host.listing()
            found = trace(duet.workers, side, cases)
        except RatchetError as error:  # the tree cannot be imported
            found = dict.fromkeys(cases, SideTrace(None, str(error)))
        for name, one in found.items():
            traces[name][side] = one
    return Traces(traces, max(host.import_s for host in duet.hosts.values()))


def trace_cases(
    trees: Mapping[Side, TreeSpec], cases: Sequence[str], plan: Plan, progress: Progress, environ: Mapping[str, str]
) -> Traces:
    """Trace cases on each of these trees, with hosts that import them for this. Trouble is in the traces."""
    with open_bench(trees, plan, progress, environ) as duet:
        return _traced(duet, cases)


def profile_cases(
    context: ProfileContext, wanted: Sequence[CaseToProfile], traces: Traces = NO_TRACES, ready: WaitingProfilers | None = None
) -> list[CaseProfile]:
    """Profile each case. Return the profiles in this order. An error is a sentence in the profile and never costs a verdict.

    ``traces`` has what torch.profiler saw already; where a side of a case is not in it, the trees are imported once more.
    """
    done: dict[str, CaseProfile] = {}
    budget = TimeBudget(context.site.settings.profile_timeout)
    for reference in dict.fromkeys(one.reference for one in wanted):
        with _checked_out(context, reference) as (tree, why):
            group = [replace(one, no_reference=one.no_reference or why) for one in wanted if one.reference == reference]
            done |= _profiled(context, group, tree, traces, budget, ready)
    profiles = [done[one.verdict.name] for one in wanted]
    with contextlib.suppress(RatchetError):  # each profile already says that its files could not be written
        add_to_index(context.background.folder, profiles)
    return profiles


def _wanted(verdict: CaseVerdict, run: RunRecord) -> CaseToProfile:
    case = next(candidate for candidate in run.cases if candidate.name == verdict.name)
    missing = run.reference_missing or ""
    return CaseToProfile(verdict, _options_of(case), case, None if missing else case.reference_tree or run.reference, missing)


def _options_of(case: CaseRun) -> NcuOptions:
    return NcuOptions(cold_cache=case.workload is None or case.workload.cache == "cold")


@contextlib.contextmanager
def _checked_out(context: ProfileContext, reference: Tree | None) -> Iterator[tuple[Path | None, str]]:
    """Check out and build a reference. Yield its folder, or None and why there is none."""
    site = context.site
    if reference is None:
        yield None, ""
    elif site.trees.reference is not None and reference == context.reference:
        yield site.trees.reference, ""
    else:
        with contextlib.ExitStack() as stack:
            try:
                snapshot = site.repository.snapshot_of(reference)
                tree = stack.enter_context(worktree(site.repository, site.trees, snapshot))
                variables = site.machine.pythons.variables("reference", site.environ)
                unbuilt = build(site.settings, "reference", tree, snapshot, site.progress, variables)
            except RatchetError as error:
                yield None, str(error)
                return
            yield (None, str(unbuilt)) if unbuilt else (tree, "")


def _profiled(
    context: ProfileContext,
    group: Sequence[CaseToProfile],
    reference: Path | None,
    traces: Traces,
    budget: TimeBudget,
    ready: WaitingProfilers | None,
) -> dict[str, CaseProfile]:
    """Profile cases with the same reference, which take turns in the same processes."""
    site = context.site
    request = _request(site, reference, budget)
    untraced = [one.verdict.name for one in group if not request.trees.keys() <= traces.cases.get(one.verdict.name, {}).keys()]
    if untraced:
        plan = plan_of(site.settings, site.machine.device)
        traces = traces.joined(trace_cases(request.trees, untraced, plan, site.progress, site.environ))
    budget.import_s = traces.import_s
    site.progress.stage(f"Profiling {plural(len(group), 'case')}: {', '.join(one.verdict.name for one in group)}")
    sides = profile_sides(request, {one.verdict.name: one.options for one in group}, traces.cases, ready)
    return {one.verdict.name: _saved(context, one, sides[one.verdict.name]) for one in group}


def _request(site: ProfileSite, reference: Path | None, budget: TimeBudget) -> ProfileRequest:
    roots: dict[Side, Path] = {**({"reference": reference} if reference else {}), "head": site.trees.head}
    trees = {side: tree_spec(site.settings, site.machine, site.repository.root, path, side) for side, path in roots.items()}
    folder = Path(tempfile.mkdtemp(prefix="profile-", dir=site.trees.logs))  # gone with the trees
    return ProfileRequest(trees, site.settings.seed, benchmark_environ(site.environ, trees["head"]), folder, budget)


def _saved(context: ProfileContext, wanted: CaseToProfile, sides: Mapping[Side, SideProfile]) -> CaseProfile:
    profiles = {side: one.profile for side, one in sides.items() if one.profile is not None}
    failed: dict[Side, str] = {
        side: " ".join(one.steps_down) or NOTHING_SEEN for side, one in sides.items() if one.profile is None
    }
    if wanted.no_reference:
        failed["reference"] = wanted.no_reference
    profile = CaseProfile(
        case=wanted.verdict.name,
        head=profiles.get("head"),
        reference=profiles.get("reference"),
        head_tree=context.head,
        reference_tree=wanted.reference,
        ratio=wanted.verdict.changed_ratio,
        findings=(),
        steps_down=_steps_down({side: one for side, one in sides.items() if side not in failed}),
        failed=failed,
    )
    reports = {side: one.report for side, one in sides.items() if one.report}
    return save_case(diagnosed(profile, wanted.case), wanted.verdict, wanted.case, context.background, reports)


def _steps_down(sides: Mapping[Side, SideProfile]) -> tuple[str, ...]:
    """Return each sentence once; a sentence about one side names it."""
    sentences = dict.fromkeys(sentence for one in sides.values() for sentence in one.steps_down)
    both = len(sides) > 1
    notes = []
    for sentence in sentences:
        names = [side for side, one in sides.items() if sentence in one.steps_down]
        notes.append(f"{names[0].capitalize()}: {sentence}" if both and len(names) == 1 else sentence)
    return tuple(notes)
