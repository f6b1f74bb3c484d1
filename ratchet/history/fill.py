"""Carry out `ratchet history fill`: which commits of a range changed a case, one after the other, into the history?

Read it from the top: list the commits, compare each with the one before it as a check does, measure what changed once more
against a fixed anchor, keep a run in the history. A commit whose files are the same for the benchmarks needs no device, and the
device is taken when the first other commit comes. ``results/fill/…/fill.json`` is written after each commit; a later call goes on
from there.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from ratchet import tools
from ratchet.core import units
from ratchet.core.bench.build import without_secrets
from ratchet.core.check import CheckPlan, Comparer, compare_commits
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import BuildError, ForeignModuleError, GitError, HostError, RecordError, UsageError
from ratchet.core.git import Repository, Snapshot, Trees, worktree, worktrees
from ratchet.core.judge.verdict import ending
from ratchet.core.machine import Machine, environment_of, machine_of
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import load, save, save_text
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import CaseVerdict, Outcome
from ratchet.core.report.progress import Progress
from ratchet.core.report.words import commit_label
from ratchet.core.request import CommandResult, Request, own_output_globs, watched, writable
from ratchet.core.trees import build
from ratchet.core.untrusted import clean
from ratchet.history.anchors import ANCHOR_PAIRS
from ratchet.history.bisect import commits_of_line
from ratchet.history.command import HISTORY
from ratchet.history.fill_records import FilledCase, FilledCommit, FillRecord, commit_line, fill_page
from ratchet.history.judge import history_run, ratio_to
from ratchet.history.records import HistoryCase, HistoryRun, RatioTo
from ratchet.history.store import append

FOLDER, STATE, PAGE = "fill", "fill.json", "fill.md"
CHANGES = (Outcome.REGRESSED, Outcome.SLOWER, Outcome.IMPROVED)
UNDECIDED = (Outcome.INCONCLUSIVE, Outcome.UNFIT)
UNTIMED = (Outcome.IDENTICAL, Outcome.SKIPPED)


def fill(
    span: str,
    request: Request,
    progress: Progress,
    environ: Mapping[str, str],
    *,
    paths: Sequence[str] = (),
    benchmarks: str | None = None,
    time_s: float | None = None,
    again: bool = False,
    static: bool = False,
) -> tuple[FillRecord, Path]:
    """Walk through ``A..B``, the commits after A up to B, and keep a run of each in the history; return the walk and its page.

    ``paths``: only the commits that change one of these. ``benchmarks``: the commit whose benchmark files are used; None: those
    of the checkout. ``time_s``: begin no commit that would probably end later. ``again``: forget an earlier walk. ``static``:
    write down what the cases of a commit need to prove the commits after it the same without the device.
    Raises UsageError for a range or settings that are wrong, UnfitError and BusyError for the device: what is done is kept.
    """
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    if settings.command and static:
        raise UsageError("--static looks into ratchet's own benchmarks, and these are of another harness.", "Leave it out.")
    if settings.command:  # as in a check
        settings = settings.model_copy(update={"profile": "never"})
    older, newer = (repository.commit_snapshot(end) for end in _ends(span))
    commits = _range(repository, older, newer, paths)
    results = writable(repository.root / settings.results)
    own = own_output_globs(repository, results)
    files = repository.commit_snapshot(benchmarks) if benchmarks else repository.working_snapshot(own)
    limits = hashlib.sha256("\n".join((*paths, "", *request.patterns)).encode()).hexdigest()[:6]
    limited = f"-{limits}" if paths or request.patterns else ""
    folder = writable(results / FOLDER / f"{older.tree.commit[:10]}-{newer.tree.commit[:10]}{limited}")
    proof = tools.part("static") if static else None
    environ = without_secrets(environ)
    site = _Site(request, repository, settings, progress, environ)
    walk = _Walk(request, repository, settings, files, results, folder, progress, environ, proof, site)
    record = FillRecord(
        older=older.tree,
        newer=newer.tree,
        paths=tuple(paths),
        patterns=request.patterns,
        benchmarks=repository.hash_of(f"{files.revision}:{settings.bench}^{{tree}}"),
        commits=tuple(commits),
        started_at=datetime.now(UTC),
    )
    progress.announce(f"{units.plural(len(commits), 'commit')} after {commit_label(older.tree)} up to {commit_label(newer.tree)}")
    record = _resumed(record, walk, again=again)
    clock = time.monotonic()
    with watched(repository.root, results, progress), site.stack:
        while record.left:
            spent = time.monotonic() - clock
            # A commit that needs the device takes no longer than nine in ten of the last twenty.
            seconds = sorted(one.seconds for one in record.done[-20:] if one.machine)
            usual = seconds[len(seconds) * 9 // 10] if seconds else 0.0
            if time_s is not None and spent + usual > time_s:
                progress.announce(f"The time is used up after {units.wall(spent)}; {len(record.left)} commits are left.")
                break
            done = walk.look_at(record, record.left[0])
            record = record.model_copy(update={"done": (*record.done, done)})
            save(folder / STATE, record)
            save_text(folder / PAGE, fill_page(record, repository.web_address()))
            progress.announce(f"{len(record.done)} of {len(commits)}: {commit_line(done)}")
    return record, folder / PAGE


def _ends(span: str) -> tuple[str, str]:
    older, dots, newer = span.partition("..")
    if not older or not dots or newer.startswith("."):
        raise UsageError(f"{clean(span)} is not a range such as v1.2..main.", "Name the older commit first; without B, HEAD.")
    return older, newer or "HEAD"


def _range(repository: Repository, older: Snapshot, newer: Snapshot, paths: Sequence[str]) -> list[str]:
    """Return the commits to look at. Raises UsageError where there are none, and as `commits_of_line`."""
    commits, (one, other) = commits_of_line(repository, older, newer), (older.tree.commit, newer.tree.commit)
    if paths:
        commits = repository.commits_after(one, other, paths)
    if not commits:
        what = f" that changes {clean(' '.join(paths))}" if paths else ""
        raise UsageError(
            f"There is no commit{what} after {one[:10]} up to {other[:10]}.", "Name an older commit, or other paths."
        )
    return commits


def _resumed(record: FillRecord, walk: _Walk, *, again: bool) -> FillRecord:
    """Return the walk with what an earlier one has done, where the commits and the benchmarks are still the same."""
    if again or not (walk.folder / STATE).exists():
        return record
    try:
        earlier = load(walk.folder / STATE, FillRecord)
    except RecordError as error:
        walk.progress.announce(f"{error.message} The walk starts from the beginning.")
        return record
    if (earlier.commits, earlier.benchmarks) != (record.commits, record.benchmarks):
        what = "commits" if earlier.commits != record.commits else "folder of benchmarks"
        walk.progress.announce(f"An earlier walk had a different {what}, so this one starts from the beginning.")
        return record
    if earlier.done:
        walk.progress.announce(f"{len(earlier.done)} of them were done before; --again would forget that.")
    return record.model_copy(update={"done": earlier.done, "started_at": earlier.started_at})


@dataclass
class _Site:
    """The device of a walk and its two trees. The tree of the commit before stays, built; the next takes the other's place."""

    request: Request
    repository: Repository
    settings: Settings
    progress: Progress
    environ: Mapping[str, str]
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    machine: Machine | None = None
    folders: dict[str, Path] = field(default_factory=dict)
    """Commit → where it is checked out; the older one of two first."""
    logs: Path = Path()

    def device(self) -> Machine:
        what = f"ratchet history fill in {self.repository.root}"
        if self.machine is None:
            held = machine_of(self.request.devices, self.settings, what, self.progress, self.environ)
            self.machine = self.stack.enter_context(held)
        return self.machine

    def trees(self, head: Snapshot, reference: Snapshot) -> Trees:
        """Check the commit out in the place of the one before the last; both of a first pair are new."""
        repository, names = self.repository, [head.tree.commit, reference.tree.commit]
        if names[1] not in self.folders:
            trees = self.stack.enter_context(worktrees(repository, head, reference))
            self.folders, self.logs = {names[1]: trees.reference or trees.head, names[0]: trees.head}, trees.logs
        elif names[0] not in self.folders:
            kept = self.folders[names[1]]
            ((_, place),) = ((name, folder) for name, folder in self.folders.items() if name != names[1])
            repository.remove_worktree(place)
            repository.add_worktree(place, head.revision)
            self.folders = {names[1]: kept, names[0]: place}
        return Trees(self.folders[names[0]], self.folders[names[1]], self.logs)


@dataclass
class _Walk:
    """A walk from commit to commit, and what it keeps for the next one."""

    request: Request
    repository: Repository
    settings: Settings
    benchmarks: Snapshot
    results: Path
    folder: Path
    progress: Progress
    environ: Mapping[str, str]
    static: Any
    """The module that proves commits to be the same without a device; None where nobody wants that."""
    site: _Site
    last: HistoryRun | None = None
    recorded: Any = None
    """What was written down last of the cases. Of one that a commit touched since, it proves nothing any more.

    No later call reads it: what is installed may be another by then.
    """

    def snapshot(self, commit: str) -> Snapshot:
        """Return a commit with the chosen benchmarks in place of its own; those of another harness stay its own."""
        return self.repository.commit_with(commit, None if self.settings.command else self.benchmarks, self.settings.bench)

    def plan(self, head: Snapshot, reference: Snapshot) -> CheckPlan:
        place = self.folder / head.tree.commit[:10]
        bench_from: Literal["head"] | None = None if self.settings.command else "head"
        sides = (Baseline(), head, reference, bench_from)
        return CheckPlan(self.repository, self.settings, place, *sides, self.request.patterns, None, self.environ)

    def look_at(self, record: FillRecord, commit: str) -> FilledCommit:
        """Compare a commit with the last one before it that could be measured, and keep its run in the history."""
        names = [one.run for one in record.done if one.run]
        if self.last is None and names:
            with contextlib.suppress(RecordError):  # it was taken away: so the history has no point here
                self.last = load(self.results / HISTORY / names[-1], HistoryRun)
        started, clock = datetime.now(UTC), time.monotonic()
        head, reference = self.snapshot(commit), self.snapshot(record.before)

        def done(**values: object) -> FilledCommit:
            seconds = round(time.monotonic() - clock, 2)
            return FilledCommit.model_validate({"tree": head.tree, "before": record.before, "seconds": seconds} | values)

        if head.tree.content == reference.tree.content:
            run = self._same_as_last(record, head, started, "It has the same files as the commit before it, benchmarks apart.")
            return done(result="identical", reason="It has the same files, benchmarks apart.", run=run)
        proved, needed = self._proved(head, reference)
        if proved and not needed:
            reason = f"No case does anything else than before, by what was recorded of {commit_label(self.recorded.tree)}."
            run = self._same_as_last(record, head, started, reason)
            return done(result="identical", reason=reason, same=proved, run=run)
        machine = self.site.device()
        fingerprint = environment_of(machine).fingerprint
        last = self.last
        if last is None or (last.commit, last.fingerprint) != (record.before, fingerprint):
            proved = ()  # a run has all cases, and these would have no figures to keep
        patterns = tuple(glob.escape(name) for name in needed) if proved else self.request.patterns
        try:
            trees = self.site.trees(head, reference)
            if broken := build(self.settings, "head", trees.head, head, self.progress, self.environ):
                raise broken
            plan = replace(self.plan(head, reference), patterns=patterns)
            writable(plan.results)
            self.progress.begin(f"{commit_label(head.tree)} against {reference.tree.commit[:10]}")
            began = (started, time.monotonic())
            checked = compare_commits(plan, self.request.command, machine, trees, self.progress, began)
            cases = self._confirmed(record, checked, head, reference, trees)
        except (BuildError, ForeignModuleError, GitError, HostError) as error:
            return done(result="failed", reason=clean(error.message), machine=fingerprint)
        report = checked.report
        same = (*proved, *(case.name for case in report.cases if case.outcome is Outcome.IDENTICAL))
        if not same and all(case.outcome is Outcome.FAILED for case in cases):
            reason = cases[0].reason if cases else "There is no case that this machine can measure."
            return done(result="failed", reason=reason, machine=fingerprint, cases=tuple(cases))
        kept = self._run_of(record, checked, cases, proved).model_copy(update={"device_s": round(time.monotonic() - clock, 2)})
        result = "timed" if cases else "identical"
        shown = [case for case in report.cases if case.name in {*same, *(one.name for one in cases)}]
        left_out = len(report.cases) - len(shown)
        also = f" {units.plural(left_out, 'case')} cannot be measured, as before." if left_out else ""
        shown += [CaseVerdict(name=name, outcome=Outcome.IDENTICAL, reason="It was proved.") for name in proved]
        reason = f"{ending(shown, report.policy)[1] if cases else 'No case does anything else than before.'}{also}"
        return done(result=result, reason=reason, machine=kept.fingerprint, cases=tuple(cases), same=same, run=self._keep(kept))

    def _proved(self, head: Snapshot, reference: Snapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the cases that are proved to do the same at both commits, and all others; neither where nothing is known."""
        patterns = self.request.patterns
        if not self.static:
            return (), ()
        prover = self.static.Prover(self.repository, self.settings, self.progress, self.environ)

        def held_against(base: Snapshot) -> Any:  # a check compiles what changed too, and nearly all of that has to be timed
            return prover.compared(self.recorded, (base, reference, head), patterns, compiling=False)

        try:
            report = held_against(self.snapshot(self.recorded.tree.commit)) if self.recorded else None
            # Cases touch nearly what they touched before. Where this commit changed that, a new record would prove nothing.
            if report is None or len(held_against(reference).needed) * 2 < len(report.needed):
                self.recorded = prover.recorded(self.site.device(), reference, patterns)
                report = held_against(reference)
        except (BuildError, ForeignModuleError, GitError, HostError, UsageError):
            return (), ()  # measuring says what is wrong
        return tuple(case.name for case in report.cases if case.identical), report.needed

    def _confirmed(
        self, record: FillRecord, checked: CommandResult, head: Snapshot, reference: Snapshot, trees: Trees
    ) -> list[FilledCase]:
        """Return the cases that are not the same; those that changed were measured once more against their anchor."""
        run, report = checked.run, checked.report
        measured = {case.name: case for case in run.cases}
        fingerprint = run.environment.fingerprint
        failed_before = [name for name, case in measured.items() if case.head and case.failure("reference")]
        doubtful = [name for name in failed_before if record.level_of(name, fingerprint)]
        doubtful += [case.name for case in report.cases if case.outcome in UNDECIDED]
        changed = [*(case.name for case in report.cases if case.outcome in CHANGES), *doubtful]
        first = RatioTo(commit=reference.tree.commit, ratio=1, low=1, high=1, pairs=0)
        levels = {name: record.level_of(name, fingerprint) or first for name in changed}
        anchored = self._against_anchors(run, head, trees, levels)
        if lost := [name for name in changed if name not in anchored]:  # the anchor cannot be measured any more
            levels |= dict.fromkeys(lost, first)
            anchored |= self._against_anchors(run, head, trees, dict.fromkeys(lost, first))
        causes = {profile.case: profile.causes[0].what for profile in report.profiles if profile.causes}
        filled = []
        for case in report.cases:
            fails = measured[case.name].failure
            if case.outcome in UNTIMED or (fails("head") and fails("reference")):  # as before
                continue
            anchor = anchored.get(case.name)
            confirmed = _shows(case, anchor, levels[case.name], run.policy.of_case(case.name).regression) if anchor else None
            if case.name in doubtful and not confirmed:  # no change was seen
                confirmed = None
            filled.append(
                FilledCase(
                    name=case.name,
                    outcome=case.outcome,
                    reason=clean(case.reason),
                    reference=ratio_to(measured[case.name], run, case),
                    anchor=anchor,
                    confirmed=confirmed,
                    cause=clean(causes.get(case.name, "")),
                )
            )
        return filled

    def _against_anchors(self, run: RunRecord, head: Snapshot, trees: Trees, levels: Mapping[str, RatioTo]) -> dict[str, RatioTo]:
        """Measure cases against the anchors of their levels. A case is left out where that fails."""
        found = dict[str, RatioTo]()
        for commit in dict.fromkeys(level.commit for level in levels.values()):
            names = [name for name, level in levels.items() if level.commit == commit]
            self.progress.announce(f"Measuring {units.listed(names)} again, against {commit[:10]}")
            try:
                anchor = self.snapshot(commit)
                with worktree(self.repository, trees, anchor) as tree:
                    comparer = Comparer(self.plan(head, anchor), (self.site.device(),), trees, self.progress)
                    cases = comparer.compare(anchor, tree, names, pairs=ANCHOR_PAIRS).cases
            except (BuildError, ForeignModuleError, GitError, HostError, UsageError) as error:
                self.progress.announce(f"{commit[:10]} cannot be measured any more: {error.message}")
                continue
            against = [case.model_copy(update={"reference_tree": anchor.tree}) for case in cases]
            found |= {case.name: ratio for case in against if (ratio := ratio_to(case, run))}
        return found

    def _run_of(
        self, record: FillRecord, checked: CommandResult, cases: Sequence[FilledCase], proved: Sequence[str]
    ) -> HistoryRun:
        """Return the run of a commit as the history keeps it; cases that were proved the same keep their last figures.

        A case that does the same as before, or was shown to be unchanged, has the ratio to the anchor of the commit before.
        """
        run = history_run(checked.run, checked.report, Baseline())
        measured = {case.name: case.anchor for case in cases}
        kept = [_same(case, record.before) for case in self.last.cases if case.name in proved] if self.last else []
        for case in run.cases:
            level = measured.get(case.name)
            if level is None and case.outcome in (*UNTIMED, Outcome.UNCHANGED) and case.reference:
                level = record.level_of(case.name, run.fingerprint)
                level = level or RatioTo(commit=case.reference.commit, ratio=1, low=1, high=1, pairs=0)
            kept.append(case.model_copy(update={"anchor": level}))
        return run.model_copy(update={"cases": tuple(kept)})

    def _keep(self, run: HistoryRun) -> str:
        """Keep a run in the history, at the time of its commit and after the last one; return its name there."""
        at, last = self.repository.committed_at(run.commit), self.last
        at = max(at, last.at + timedelta(seconds=1)) if last else at
        self.last = run.model_copy(update={"placed_at": at})
        folder = self.results / HISTORY
        return append(folder, self.last).relative_to(folder).as_posix()

    def _same_as_last(self, record: FillRecord, head: Snapshot, started: datetime, headline: str) -> str:
        """Keep a run with the figures of the commit before, which does the same; none before one was measured."""
        if self.last is None or self.last.commit != record.before:
            return ""
        cases = tuple(_same(case, self.last.commit) for case in self.last.cases)
        about = {"commit": head.tree.commit, "subject": head.tree.subject, "started_at": started, "device_s": 0.0, "cases": cases}
        verdict = {"verdict": "pass", "headline": headline}
        return self._keep(self.last.model_copy(update=about | verdict))


def _same(case: HistoryCase, commit: str) -> HistoryCase:
    """Return a case as the next commit has it, which does the same."""
    same = RatioTo(commit=commit, ratio=1, low=1, high=1, pairs=0)
    skipped = case.outcome in (Outcome.SKIPPED, Outcome.FAILED, Outcome.MISSING)
    outcome = case.outcome if skipped else Outcome.IDENTICAL
    return case.model_copy(
        update={"outcome": outcome, "reference": None if skipped else same, "why": None, "profile": None, "muted": None}
    )


def _shows(case: CaseVerdict, seen: RatioTo, level: RatioTo, gate: float) -> bool:
    """Return whether a ratio to the anchor is off the last level in the direction of the change, by more than both intervals.

    A case without a verdict has no direction, and has to be off by more than the gate too.
    """
    shift = math.log(seen.ratio / level.ratio)
    half = math.hypot(math.log(seen.high / seen.low) / 2, math.log(level.high / level.low) / 2)
    if case.outcome not in CHANGES:
        return abs(shift) > max(half, math.log1p(gate))
    return -shift > half if case.outcome is Outcome.IMPROVED else shift > half
