"""Carry out `ratchet bisect`: which commit after GOOD, up to BAD, or which version of a package, changed a case?

Read it from the top: list the commits, compare BAD with GOOD, halve what is left, then check the commit against its parent and
profile both. GOOD stays checked out and built; each other commit is compared with it. Where versions of a package are searched,
they stand in the place of commits: all are the checkout, in environments of their own. It holds the device, checks trees out in
temporary folders, builds them, runs the benchmarks of the checkout in them, and writes ``results/bisect/`` after each commit.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from ratchet import tools
from ratchet.core import units
from ratchet.core.bench.build import without_secrets
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.check import CheckPlan, compare_commits, task_of
from ratchet.core.config import Settings, load_settings
from ratchet.core.device.lock import Preempted
from ratchet.core.errors import BuildError, ForeignModuleError, HostError, RecordError, UnfitError, UsageError
from ratchet.core.git import Repository, Snapshot, Trees, worktree, worktrees
from ratchet.core.judge.comparison import pairs_of
from ratchet.core.judge.evidence import CHANGE_PAIRS, thresholds_for
from ratchet.core.judge.outcome import compared, decide
from ratchet.core.judge.rule import GateRule, looks_for_change
from ratchet.core.machine import Machine, environment_of, machine_of, plan_of
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import file_stem, load, save
from ratchet.core.records.run import CaseRun, Side
from ratchet.core.records.verdict import Comparison, Outcome
from ratchet.core.report.progress import Progress
from ratchet.core.report.words import commit_label
from ratchet.core.request import CommandResult, Request, own_output_globs, watched, writable
from ratchet.core.trees import build, cases_of, measure, tree_specs
from ratchet.core.untrusted import clean
from ratchet.history.bisection import (
    ERROR,
    CommitVerdict,
    End,
    SearchRecord,
    VerdictName,
    bounds,
    decision_threshold,
    differs,
    end_of,
    ends_of,
    level_of,
    next_place,
)

FOLDER, SEARCH = "bisect", "search.json"
RESUME = "Run the same command again: commits that were looked at are not measured again."


@dataclass(frozen=True)
class _Site:
    """The place where commits are compared with GOOD."""

    repository: Repository
    settings: Settings
    head: Snapshot
    """The checkout, whose benchmarks all commits are measured with."""
    machine: Machine
    folder: Path
    progress: Progress
    environ: Mapping[str, str]
    package: str = ""
    """The package whose versions are searched."""

    def snapshot(self, commit: str) -> Snapshot:
        """Return a commit with the benchmarks of the checkout in place of its own; those of another harness stay its own."""
        if self.package:
            return Snapshot(self.head.revision, self.head.tree.model_copy(update={"commit": commit, "subject": self.package}))
        return self.repository.commit_with(commit, None if self.settings.command else self.head, self.settings.bench)

    def in_environments(self, head: str, reference: str) -> Machine:
        """Return the machine with the environments of two versions; as it is where commits are searched. Raises UsageError."""
        if not self.package:
            return self.machine
        wanted: dict[Side, str] = {"head": f"{self.package}=={head}", "reference": f"{self.package}=={reference}"}
        return replace(self.machine, pythons=tools.part("environments").side_pythons(wanted, self.environ, self.progress))


def bisect(
    good: str,
    bad: str,
    request: Request,
    progress: Progress,
    environ: Mapping[str, str],
    *,
    again: bool = False,
    package: str = "",
    gives_way: bool = False,
) -> tuple[SearchRecord, CommandResult | None]:
    """Search for the commit that changed the case which the request names. ``again``: forget what an earlier run has measured.

    ``gives_way``: whenever another run wants the device, let it have it, and go on afterwards.
    With a ``package``, ``good`` and ``bad`` are versions of it, and the released versions between them are searched.

    Return the search, and its last commit against the parent; None in its place where there was no change to search for.

    Raises UsageError for commits or a case that cannot be searched, BuildError and HostError where GOOD or BAD cannot be
    measured, UnfitError where the machine got in the way: what was measured until then is kept.
    """
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    if settings.command:  # as in a check
        settings = settings.model_copy(update={"profile": "never"})
    if settings.pairs < CHANGE_PAIRS:
        raise UsageError(f"A search takes {CHANGE_PAIRS} pairs or more, not {settings.pairs}.", "Raise --pairs, or leave it out.")
    results = writable(repository.root / settings.results)
    if package:
        commits, ends = tools.part("environments").released(package, good, bad, environ), (good, bad)
        progress.announce(f"{units.plural(len(commits), 'version')} of {package} after {good} up to {bad}")
        settings = settings.model_copy(update={"build_cache": False})
    else:
        first, last = repository.commit_snapshot(good), repository.commit_snapshot(bad)
        commits, ends = _range(repository, first, last), (first.tree.commit, last.tree.commit)
        progress.announce(
            f"{units.plural(len(commits), 'commit')} after {commit_label(first.tree)} up to {commit_label(last.tree)}"
        )
    folder = writable(
        results / FOLDER / "-".join([file_stem(request.patterns[0]), *filter(None, [package]), *(end[:10] for end in ends)])
    )
    head, what = repository.working_snapshot(own_output_globs(repository, results)), f"ratchet bisect in {repository.root}"

    def found(machine: Machine, *, again: bool) -> tuple[SearchRecord, CommandResult | None]:
        site = _Site(repository, settings, head, machine, folder, progress, without_secrets(environ), package)
        search = SearchRecord(
            case=request.patterns[0],
            good=site.snapshot(ends[0]).tree,
            bad=site.snapshot(ends[1]).tree,
            package=package,
            benchmarks=head.tree.content if package else repository.hash_of(f"{head.revision}:{settings.bench}^{{tree}}"),
            fingerprint=environment_of(machine).fingerprint,
            plan=plan_of(settings, machine.device, sessions=True),
            error=ERROR,
            commits=tuple(commits),
            started_at=datetime.now(UTC),
            command=request.command,
        )
        search = _resumed(search, folder, progress, again=again)
        search = _searched(search, site)
        return search, _against_parent(search, site, request.command) if search.suspects else None

    while True:
        try:
            with (
                machine_of(request.devices, settings, what, progress, environ, gives_way=gives_way) as machine,
                watched(repository.root, results, progress),
            ):
                return found(machine, again=again)
        except Preempted:
            again = False
            progress.announce("Another run needs the device. This search pauses and continues when that run is done.")


def commits_of_line(repository: Repository, older: Snapshot, newer: Snapshot, names: tuple[str, str] = ("", "")) -> list[str]:
    """Return the commits after the older one, up to the newer one, along first parents. ``names``: what to call both.

    Raises UsageError where the newer one does not come after the older one in this line. Where the line merged it, the line lacks
    what it has, and a difference is none of the line's doing.
    """
    one, other = older.tree.commit, newer.tree.commit
    first, last = (f"{name} {commit_label(end.tree)}".lstrip() for name, end in zip(names, (older, newer), strict=True))
    if not repository.is_ancestor(one, other):
        hint = f"Name a commit that {other[:10]} comes from, such as that of `git merge-base {one[:10]} {other[:10]}`."
        hint = "Fetch the history with `git fetch --unshallow`." if repository.is_shallow() else hint
        hint = "Swap them: the older commit comes first." if repository.is_ancestor(other, one) else hint
        raise UsageError(f"{first} is not an ancestor of {last}.", hint)
    commits = repository.commits_after(one, other)
    start = repository.hash_of(f"{commits[0]}^1") if commits else one
    if start != one:
        common = f"Name {start[:10]}, the last commit of that line which {names[0] or one[:10]} has too."
        raise UsageError(
            f"{first} is not on the line of first parents of {names[1] or other[:10]}, which merged it.",
            common if start else "Name another commit.",
        )
    return commits


def _range(repository: Repository, good: Snapshot, bad: Snapshot) -> list[str]:
    """Return the commits to search. Raises UsageError where there are none, and as `commits_of_line`."""
    if good.tree.commit == bad.tree.commit:
        raise UsageError(f"GOOD and BAD are the same commit, {commit_label(good.tree)}.", "Name an older commit first.")
    return commits_of_line(repository, good, bad, ("GOOD", "BAD"))


def _resumed(search: SearchRecord, folder: Path, progress: Progress, *, again: bool) -> SearchRecord:
    """Return the search with what an earlier run of it has measured, where the benchmarks and the machine are still the same."""
    if again or not (folder / SEARCH).exists():
        return search
    try:
        earlier = load(folder / SEARCH, SearchRecord)
    except RecordError as error:
        progress.announce(f"{error.message} The search starts from the beginning.")
        return search
    if (earlier.case, earlier.package, earlier.commits) != (search.case, search.package, search.commits):
        return search
    for what, before, now in (
        ("folder of benchmarks", earlier.benchmarks, search.benchmarks),
        ("machine or software", earlier.fingerprint, search.fingerprint),
        ("clock", (earlier.plan.clock, earlier.plan.cache), (search.plan.clock, search.plan.cache)),
    ):
        if before != now:
            progress.announce(f"An earlier run of this search had a different {what}, so the search starts from the beginning.")
            return search
    if earlier.looked_at:
        progress.announce(f"{len(earlier.looked_at)} of them were looked at before; --again would forget that.")
    return search.model_copy(update={"looked_at": earlier.looked_at})


def _searched(search: SearchRecord, site: _Site) -> SearchRecord:
    """Look at one commit after the other, BAD first, until the change is between two of them or there is none."""
    count = len(search.commits)
    closed = {search.commits.index(one.tree.commit) for one in search.looked_at if one.verdict == "skipped"}
    with contextlib.ExitStack() as stack:
        trees: Trees | None = None
        while (place := next_place(count, ends_of(search), closed)) is not None:
            trees = trees or stack.enter_context(_good_and_bad(search, site))
            verdict = _looked_at(search, place, trees, site)
            closed.add(place)
            search = search.model_copy(update={"looked_at": (*search.looked_at, verdict)})
            save(site.folder / SEARCH, search)
            site.progress.announce(f"{verdict.verdict}: {commit_label(verdict.tree)}. {verdict.reason}")
    ends = ends_of(search)
    if ends.get(count - 1) != "bad":
        return search
    low, high = bounds(count, ends)
    tree_of = site.snapshot if site.package else site.repository.commit_snapshot
    trees_of = [tree_of(commit).tree for commit in search.commits[low + 1 : high + 1]]
    parent = tree_of(search.commits[low]).tree if low >= 0 else search.good
    merged = site.repository.merged(trees_of[0].commit) if len(trees_of) == 1 and not site.package else None
    search = search.model_copy(update={"suspects": tuple(trees_of), "parent": parent, "merged": merged})
    save(site.folder / SEARCH, search)
    return search


@contextlib.contextmanager
def _good_and_bad(search: SearchRecord, site: _Site) -> Iterator[Trees]:
    """Check out both ends of the range, BAD as the head, and build GOOD. Raises BuildError where that fails."""
    good, bad = (site.snapshot(tree.commit) for tree in (search.good, search.bad))
    with worktrees(site.repository, bad, good) as trees:
        variables = site.in_environments(bad.tree.commit, good.tree.commit).pythons.variables("reference", site.environ)
        if trees.reference and (broken := build(site.settings, "reference", trees.reference, good, site.progress, variables)):
            raise broken
        yield trees


def _looked_at(search: SearchRecord, place: int, trees: Trees, site: _Site) -> CommitVerdict:
    """Compare a commit with GOOD, by its code or by pairs.

    Raises HostError where GOOD or BAD cannot be measured, since nothing could be searched, and UsageError where BAD has no case
    of that name or several; any other commit is skipped.
    """
    snapshot, is_bad = site.snapshot(search.commits[place]), place == len(search.commits) - 1
    same = next((one for one in search.looked_at if one.tree.content == snapshot.tree.content and one.end), None)
    if not site.package and (same or snapshot.tree.content == search.good.content):
        if is_bad and trees.reference:  # the first commit of a search: nothing else has looked for the case
            specs = tree_specs(site.settings, site.machine, site.repository.root, trees.head, trees.reference)
            _require_one_case(search, site, specs["reference"])  # GOOD is built, and has the same files
        other = same.tree.commit[:10] if same else "GOOD"
        return _verdict(snapshot, same.verdict if same else "good", f"It has the same files as {other}.")
    with contextlib.nullcontext(trees.head) if is_bad or site.package else worktree(site.repository, trees, snapshot) as tree:
        try:
            machine = site.in_environments(snapshot.tree.commit, search.good.commit)
            variables = machine.pythons.variables("head", site.environ)
            if broken := build(site.settings, "head", tree, snapshot, site.progress, variables):
                raise broken
            specs = tree_specs(site.settings, machine, site.repository.root, tree, trees.reference)
            if is_bad:
                _require_one_case(search, site, specs["head"])
            rule = _SearchRule(search, site.settings, is_bad=is_bad)
            task = task_of(site.settings, site.machine, search.plan, (search.case,), rule)
            suite = measure(site.settings, specs, task, site.progress, site.environ)
        except (BuildError, ForeignModuleError, HostError, UsageError) as error:
            if is_bad:
                raise
            return _verdict(snapshot, "skipped", error.message)
    case = suite.cases[0]
    if problem := suite.reference_missing or _problem(case, "reference"):
        raise HostError(f"{case.name} cannot be measured at GOOD: {problem}", "Name another commit as GOOD.")
    if problem := _problem(case, "head"):
        if is_bad:
            raise HostError(f"{case.name} cannot be measured at BAD: {problem}", "Name another commit as BAD.")
        return _verdict(snapshot, "skipped", problem)
    if case.unfit:
        raise UnfitError(case.unfit, RESUME)
    return _judged(search, snapshot, case, site, is_bad=is_bad)


def _require_one_case(search: SearchRecord, site: _Site, tree: TreeSpec) -> None:
    """Raise UsageError where a tree has no case that the search names, or several."""
    names = [case.name for case in cases_of(site.settings, tree, [search.case], site.environ)]
    if len(names) > 1:
        raise UsageError(f"{search.case} names {len(names)} cases: {units.listed(names)}.", "Name one of them.")


def _problem(case: CaseRun, side: Side) -> str:
    """Return why a side of a case has no times that could be compared; empty where it has."""
    if failure := case.failure(side):
        return f"{failure.stage}: {failure.message}"
    if not (case.in_head if side == "head" else case.in_reference):
        return "it has no such case."
    if side == "head" and case.workload and case.workload != case.reference_workload and case.reference_workload:
        return f"its workload is another one ({'; '.join(case.reference_workload.differences(case.workload)[:3])})."
    return case.skipped or ""


class _SearchRule(GateRule):
    """Measure until it is shown which end of the search a commit is like. Whichever it is, other hosts have to show it too."""

    processes = ()

    def __init__(self, search: SearchRecord, settings: Settings, *, is_bad: bool) -> None:
        super().__init__(settings.policy, search.plan.pairs, {})
        self._search, self._most, self._is_bad = search, settings.pairs, is_bad

    def undecided(self, cases: Sequence[CaseRun]) -> list[str]:
        return [case.name for case in cases if case.reference and not _end(self._search, case, self._most, is_bad=self._is_bad)]

    def urgent(self, cases: Sequence[CaseRun]) -> list[str]:
        return [case.name for case in cases if len(case.head) < CHANGE_PAIRS]

    def changed(self, cases: Sequence[CaseRun]) -> list[str]:
        return [case.name for case in cases]

    def is_known(self, case: CaseRun) -> bool:
        return _same_code(case, self._search) is not None


def _end(search: SearchRecord, case: CaseRun, pairs: int, *, is_bad: bool) -> End | None:
    """Return which end a timed commit is like, as far as its pairs show it."""
    level = level_of(search.error, 1 + sum(one.comparison is not None for one in search.looked_at), pairs)
    measured = pairs_of(case.head, case.reference)
    if is_bad:
        return "bad" if differs(measured, level) else None
    return end_of(measured, decision_threshold(search), level)


def _same_code(case: CaseRun, search: SearchRecord) -> CommitVerdict | None:
    """Return a commit that was looked at and launches the same machine code in the same way."""
    now = case.identity.get("head")
    return next((one for one in search.looked_at if one.end and now and one.identity == now), None)


def _judged(search: SearchRecord, snapshot: Snapshot, case: CaseRun, site: _Site, *, is_bad: bool) -> CommitVerdict:
    """Return the verdict on a commit whose case was surveyed, and timed unless its code is known."""
    verdict = partial(_verdict, snapshot, identity=case.identity.get("head", ""))
    if case.identical:
        return verdict("good", "Its code is the same as that of GOOD; it was not timed.")
    if same := _same_code(case, search):
        return verdict(same.verdict, f"Its code is the same as that of {same.tree.commit[:10]}; it was not timed.")
    comparison, pairs = compared(case, site.settings.confidence), site.settings.pairs
    if comparison is None:
        return verdict("undecided", "Too few pairs were measured.")
    change = f"{units.slowdown(comparison.ratio)} {units.interval(comparison.low, comparison.high, 1)} against GOOD"
    reason = f"{change}, in {units.plural(comparison.pairs, 'pair')} of processes."
    if end := _end(search, case, pairs, is_bad=is_bad):
        return verdict(end, reason, comparison=comparison)
    outcome, said = decide(comparison, thresholds_for(site.settings.policy, 1, looks_for_change(pairs)))
    if is_bad and outcome is Outcome.UNCHANGED:
        return verdict("good", f"{reason} {said}", comparison=comparison)
    reason = f"{reason} That is too little to decide: raise --budget or --pairs."
    return verdict("undecided", reason, comparison=comparison)


def _verdict(
    snapshot: Snapshot, name: VerdictName, reason: str, *, comparison: Comparison | None = None, identity: str = ""
) -> CommitVerdict:
    return CommitVerdict(tree=snapshot.tree, verdict=name, reason=clean(reason), comparison=comparison, identity=identity)


def _against_parent(search: SearchRecord, site: _Site, command: tuple[str, ...]) -> CommandResult:
    """Check the commit that was found against its parent, with half of the change as the gate, so that it is profiled."""
    gate = min(0.99, math.expm1(abs(decision_threshold(search))))
    settings = site.settings.model_copy(update={"regression_threshold": gate, "improvement_threshold": gate})
    head, reference = (site.snapshot(tree.commit) for tree in (search.suspects[-1], search.parent or search.good))
    bench_from: Literal["head"] | None = None if settings.command or site.package else "head"
    sides = (Baseline(), head, reference, bench_from)
    plan = CheckPlan(site.repository, settings, site.folder, *sides, (search.case,), None, site.environ)
    site.progress.begin(f"{commit_label(head.tree)} against {commit_label(reference.tree)}")
    began = datetime.now(UTC), time.monotonic()
    machine = site.in_environments(head.tree.commit, reference.tree.commit)
    with worktrees(site.repository, head, reference) as trees:
        if broken := build(settings, "head", trees.head, head, site.progress, machine.pythons.variables("head", site.environ)):
            raise broken
        return compare_commits(plan, command, machine, trees, site.progress, began)
