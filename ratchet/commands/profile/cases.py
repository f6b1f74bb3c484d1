"""Profile cases on both sides: after a verdict those that changed, or those that a user named.

`ratchet check` calls `with_profiles`, `ratchet profile` calls `profile_cases`. Each side is profiled in child processes with
torch.profiler, then ncu, and nsys where ncu gives nothing. It may check out and build reference trees, and writes
``results/nsight/`` through `results`. Any error is a sentence in the profile; it never costs a verdict.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ratchet.commands.machine import Machine
from ratchet.commands.profile.results import (
    SIDES,
    Background,
    add_to_index,
    background_of,
    diagnosed,
    save_case,
    worst_first,
)
from ratchet.commands.trees import build, tree_spec
from ratchet.config import Settings
from ratchet.errors import RatchetError
from ratchet.forge.git import Repository, Trees, worktree
from ratchet.measure.build import benchmark_environ
from ratchet.measure.child.profile_target import MARK, ProfileTarget
from ratchet.profile import ncu
from ratchet.profile.ncu import ProfileError, SetName, Surroundings, Wish
from ratchet.profile.readers import traces
from ratchet.records.baseline import Baseline
from ratchet.records.profile import CaseProfile, Profile
from ratchet.records.run import CaseRun, RunRecord, Side, Tree
from ratchet.records.verdict import CaseVerdict, ReportRecord
from ratchet.report.progress import Progress

_SHARE = 0.9
"""Share of the time for one case that profiling may use; the rest is for reading the reports and drawing."""
ON_THE_CPU = "A CPU has no GPU counters; the times are those of torch's operators."
NO_KERNEL = "The call launches no kernel, and copies have no counters; the times are torch.profiler's."
INSTEAD = "The times of torch.profiler are shown instead of counters."
NOTHING_SEEN = "No profiler recorded anything."


@dataclass(frozen=True)
class Wanted:
    """One case to profile."""

    verdict: CaseVerdict
    wish: Wish
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
class Places:
    """The trees and facts that all profiles of a command share."""

    site: ProfileSite
    head: Tree
    reference: Tree | None
    """The tree that is checked out beside the head."""
    background: Background


def with_profiles(site: ProfileSite, report: ReportRecord, run: RunRecord, baseline: Baseline, results: Path) -> ReportRecord:
    """Return the report with a profile of each case that changed, as far as the settings allow; the worst first."""
    if site.settings.profile == "never":
        return report
    changed = worst_first(report.cases)
    chosen = changed[: site.settings.profile_cases]
    if not changed:
        return report
    background = background_of(run, run.environment, run.started_at, baseline, results)
    places = Places(site, run.head, run.reference, background)
    taken = profile_cases(places, [_wanted(verdict, run) for verdict in chosen])
    left_out = tuple(verdict.name for verdict in changed[len(chosen) :])
    return report.model_copy(update={"profiles": tuple(taken), "unprofiled": left_out})


def profile_cases(places: Places, wanted: Sequence[Wanted]) -> list[CaseProfile]:
    """Profile each case. Return the profiles in this order. An error is a sentence in the profile and never costs a verdict."""
    done: dict[str, CaseProfile] = {}
    references = list(dict.fromkeys(each.reference for each in wanted))
    for reference in references:
        with _checked_out(places, reference) as (tree, why):
            for each in wanted:
                if each.reference == reference:
                    places.site.progress.stage(f"Profiling {each.verdict.name} ({len(done) + 1} of {len(wanted)})")
                    no_reference = each.no_reference or why
                    done[each.verdict.name] = _profiled(places, replace(each, no_reference=no_reference), tree)
    profiles = [done[each.verdict.name] for each in wanted]
    with contextlib.suppress(RatchetError):  # each profile already says that its files could not be written
        add_to_index(places.background.folder, profiles)
    return profiles


def wish_of(site: ProfileSite, *, cold: bool | None = None, set_name: SetName = "full") -> Wish:
    """Return ncu's options, with the caches as the samples find them."""
    return Wish(set_name, site.settings.cache == "cold" if cold is None else cold)


def _wanted(verdict: CaseVerdict, run: RunRecord) -> Wanted:
    case = next(each for each in run.cases if each.name == verdict.name)
    wish = Wish(cold_cache=case.workload is None or case.workload.cache == "cold")
    if run.reference_missing:
        return Wanted(verdict, wish, case, None, run.reference_missing)
    return Wanted(verdict, wish, case, case.reference_tree or run.reference)


@contextlib.contextmanager
def _checked_out(places: Places, reference: Tree | None) -> Iterator[tuple[Path | None, str]]:
    """Check out and build a reference. Yield its folder, or None and why there is none."""
    site = places.site
    if reference is None:
        yield None, ""
    elif site.trees.reference is not None and reference == places.reference:
        yield site.trees.reference, ""
    else:
        with contextlib.ExitStack() as stack:
            try:
                snapshot = site.repository.snapshot_of(reference)
                tree = stack.enter_context(worktree(site.repository, site.trees, snapshot))
                unbuilt = build(site.settings, "reference", tree, snapshot, site.progress, site.environ)
            except RatchetError as error:
                yield None, str(error)
                return
            yield (None, str(unbuilt)) if unbuilt else (tree, "")


def _profiled(places: Places, wanted: Wanted, reference: Path | None) -> CaseProfile:
    site, case = places.site, wanted.verdict.name
    trees: dict[Side, Path] = {"head": site.trees.head, **({"reference": reference} if reference else {})}
    sides = {side: _profile_tree(site, case, trees[side], wanted.wish, side) for side in SIDES if side in trees}
    profiles = {side: one.profile for side, one in sides.items() if one.profile is not None}
    failed: dict[Side, str] = {
        side: " ".join(one.steps_down) or NOTHING_SEEN for side, one in sides.items() if one.profile is None
    }
    if wanted.no_reference:
        failed["reference"] = wanted.no_reference
    profile = CaseProfile(
        case=case,
        head=profiles.get("head"),
        reference=profiles.get("reference"),
        head_tree=places.head,
        reference_tree=wanted.reference,
        ratio=wanted.verdict.changed_ratio,
        findings=(),
        steps_down=_steps_down({side: one for side, one in sides.items() if side not in failed}),
        failed=failed,
    )
    reports = {side: one.reports for side, one in sides.items()}
    return save_case(diagnosed(profile), wanted.verdict, wanted.case, places.background, reports)


def _profile_tree(site: ProfileSite, case: str, tree: Path, wish: Wish, side: Side) -> SideProfile:
    settings = site.settings
    folder = Path(tempfile.mkdtemp(prefix=f"profile-{side}-", dir=site.trees.logs))  # gone with the trees
    spec = tree_spec(settings, site.machine, site.repository.root, tree)
    environ = benchmark_environ(site.environ, spec)
    target = ProfileTarget(spec, case, settings.seed)
    return profile_side(target, ProfileRequest(environ, folder, settings.profile_timeout * _SHARE / len(SIDES), wish))


def _steps_down(sides: Mapping[Side, SideProfile]) -> tuple[str, ...]:
    """Return each sentence once; a sentence about one side names it."""
    sentences = dict.fromkeys(sentence for one in sides.values() for sentence in one.steps_down)
    both = len(sides) > 1
    notes = []
    for sentence in sentences:
        names = [side for side, one in sides.items() if sentence in one.steps_down]
        notes.append(f"{names[0].capitalize()}: {sentence}" if both and len(names) == 1 else sentence)
    return tuple(notes)


# One side of one case.


@dataclass
class SideProfile:
    """The profile of one side, and sentences about what could not be measured of it."""

    profile: Profile | None = None
    steps_down: list[str] = field(default_factory=list)
    reports: dict[str, Path] = field(default_factory=dict)
    """Ending of the file's name → where the profiler left it."""


@dataclass(frozen=True)
class ProfileRequest:
    """The options for profiling a side, and the folder for its files meanwhile."""

    environ: Mapping[str, str]
    folder: Path
    time_limit_s: float
    wish: Wish


def profile_side(target: ProfileTarget, request: ProfileRequest) -> SideProfile:
    """Profile one case of one tree within the time limit. Each failure is a sentence in ``steps_down``.

    torch.profiler comes first: it is quick, it names the kernel that has to be in ncu's report, and it is all that is left
    where ncu takes the rest of the time and gives nothing.
    """
    ends = time.monotonic() + request.time_limit_s
    result = SideProfile()
    traced = _traced(target, request, ends, result)
    if target.tree.device == "cpu":
        result.profile = traced
        result.steps_down.insert(0, ON_THE_CPU)
    elif traced and traced.activity and traced.activity.copies_s and traces.busiest(traced.activity) is None:
        result.profile = traced
        result.steps_down.append(NO_KERNEL)
    else:
        counted = _counted(target, request, ends, result, traced)
        result.profile = counted or traced
        if counted is None and traced is not None:
            result.steps_down.append(INSTEAD)
        if counted is None:
            _systems(target, request, ends, result)
    return result


def _traced(target: ProfileTarget, request: ProfileRequest, ends: float, result: SideProfile) -> Profile | None:
    left = ends - time.monotonic()
    written = request.folder / "activity.json"
    try:
        command = target.command(left, trace=written, calls=traces.CALLS)
        return traces.take_torch_trace(command, written, Surroundings(request.environ, request.folder, left), own_error=MARK)
    except ProfileError as error:
        result.steps_down.append(str(error))
        return None


def _counted(
    target: ProfileTarget, request: ProfileRequest, ends: float, result: SideProfile, traced: Profile | None
) -> Profile | None:
    """Return the counters of ncu's report, with the trace of torch.profiler beside them; None where ncu fails."""
    from ratchet.profile.readers import read

    left = ends - time.monotonic()
    report = request.folder / "counted.ncu-rep"
    try:
        program = ncu.find_ncu(request.environ)
        where = Surroundings(request.environ, request.folder, left)
        ncu.take(program, target.command(left), report, request.wish, where, own_error=MARK)
        result.reports["ncu-rep"] = report
        profile = ncu.accepted(read(report, request.environ), traces.busiest(traced.activity) if traced else None)
    except RatchetError as error:  # of the profiler, or of whatever cannot be read in its report
        result.steps_down.append(str(error).replace(str(report), "The report of ncu"))
        return None
    more = traced.activity.launches // traced.activity.calls if traced and traced.activity else 0
    warnings = profile.warnings
    if len(profile.kernels) >= ncu.MOST_KERNELS and more > ncu.MOST_KERNELS:
        warnings = (*warnings, f"The call launches {more} kernels; the first {ncu.MOST_KERNELS} were profiled.")
    return profile.model_copy(update={"activity": traced.activity if traced else profile.activity, "warnings": warnings})


def _systems(target: ProfileTarget, request: ProfileRequest, ends: float, result: SideProfile) -> None:
    """Run nsys, if it is installed and there is time: keep its report, and use its summaries where torch has none."""
    left = ends - time.monotonic()
    program = traces.find_nsys(request.environ)
    if program is None or left < traces.LEAST_S:
        return
    report = request.folder / "traced.nsys-rep"
    try:
        profile = traces.take_nsys(program, target.command(left), report, Surroundings(request.environ, request.folder, left))
    except ProfileError as error:
        result.steps_down.append(str(error))
        return
    result.reports["nsys-rep"] = report
    result.profile = result.profile or profile
