"""One side of one case under the profilers that this machine has: ncu, else nsys, and torch.profiler in any case."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ratchet.commands.machine import Machine
from ratchet.commands.profile import files
from ratchet.commands.profile.pages import Background, background_of, diagnosed, kept
from ratchet.commands.profile.side import ProfileRequest, SideProfile, look_at
from ratchet.commands.trees import build, tree_spec
from ratchet.config import Settings
from ratchet.errors import RatchetError
from ratchet.forge.git import Repository, Trees, worktree
from ratchet.measure.build import benchmark_environ
from ratchet.measure.child.profile_target import ProfileTarget
from ratchet.profile.ncu import SetName, Wish
from ratchet.records.baseline import Baseline
from ratchet.records.profile import CaseProfile
from ratchet.records.run import CaseRun, RunRecord, Side, Tree
from ratchet.records.verdict import SLOWDOWNS, CaseVerdict, Outcome, ReportRecord
from ratchet.report.progress import Progress

# After the verdict: a profile of both sides of the cases that changed, and what it shows.


CHANGED = (*SLOWDOWNS, Outcome.IMPROVED)
_SHARE = 0.9
"""Of the time for one case: the rest is for reading the reports and drawing."""


@dataclass(frozen=True)
class Wanted:
    """One case to profile."""

    verdict: CaseVerdict
    wish: Wish
    case: CaseRun | None = None
    """What was measured of it."""
    reference: Tree | None = None
    no_reference: str = ""
    """Why there is nothing to put beside the head, where something was to be."""


@dataclass(frozen=True)
class ProfileSite:
    """Where cases are profiled: the trees, the machine, and how a reference is built there."""

    repository: Repository
    settings: Settings
    machine: Machine
    trees: Trees
    progress: Progress
    environ: Mapping[str, str]


@dataclass(frozen=True)
class Places:
    """What the profiles of a command share."""

    site: ProfileSite
    head: Tree
    reference: Tree | None
    """Of the tree that is checked out beside the head."""
    background: Background


def with_profiles(site: ProfileSite, report: ReportRecord, run: RunRecord, baseline: Baseline, results: Path) -> ReportRecord:
    """The report with a profile of each case that changed, as far as the settings allow; the worst first."""
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


def with_stored_profiles(report: ReportRecord, run: RunRecord, results: Path) -> ReportRecord:
    """The report of a run judged again, with the profiles in the results folder that are of the same code on both sides."""
    stored = files.read_index(results / files.FOLDER)
    references = {case.name: case.reference_tree or run.reference for case in run.cases}
    found = [(verdict, stored.of(verdict.name)) for verdict in worst_first(report.cases)]
    same = [
        profile.model_copy(update={"ratio": verdict.changed_ratio})
        for verdict, profile in found
        if profile and (profile.head_tree, profile.reference_tree) == (run.head, references.get(profile.case))
    ]
    return report.model_copy(update={"profiles": tuple(same)})


def worst_first(cases: Sequence[CaseVerdict]) -> list[CaseVerdict]:
    """The cases that changed: regressions, then slowdowns without proof, the slowest first, then the largest improvements."""

    def order(case: CaseVerdict) -> tuple[int, float]:
        ratio = case.comparison.ratio if case.comparison else 1.0
        return CHANGED.index(case.outcome), -ratio if case.outcome in SLOWDOWNS else ratio

    return sorted((case for case in cases if case.outcome in CHANGED), key=order)


def profile_cases(places: Places, wanted: Sequence[Wanted]) -> list[CaseProfile]:
    """A profile of each case, in this order. Whatever goes wrong is told in the profile: a verdict never falls over it."""
    done: dict[str, CaseProfile] = {}
    references = list(dict.fromkeys(each.reference for each in wanted))
    for reference in references:
        with _checked_out(places, reference) as (tree, why):
            for each in wanted:
                if each.reference == reference:
                    places.site.progress.stage(f"Profiling {each.verdict.name} ({len(done) + 1} of {len(wanted)})")
                    no_reference = each.no_reference or why
                    done[each.verdict.name] = _profiled(places, replace(each, no_reference=no_reference), tree)
    found = [done[each.verdict.name] for each in wanted]
    with contextlib.suppress(RatchetError):  # each case has said already that its files could not be written
        files.add_to_index(places.background.folder, found)
    return found


def wish_of(site: ProfileSite, *, cold: bool | None = None, set_name: SetName = "full") -> Wish:
    """How ncu looks: with the caches as the samples find them."""
    return Wish(set_name, site.settings.cache == "cold" if cold is None else cold)


def _wanted(verdict: CaseVerdict, run: RunRecord) -> Wanted:
    case = next(each for each in run.cases if each.name == verdict.name)
    wish = Wish(cold_cache=case.workload is None or case.workload.cache == "cold")
    if run.reference_missing:
        return Wanted(verdict, wish, case, None, run.reference_missing)
    return Wanted(verdict, wish, case, case.reference_tree or run.reference)


@contextlib.contextmanager
def _checked_out(places: Places, reference: Tree | None) -> Iterator[tuple[Path | None, str]]:
    """The tree of a reference, built, and why there is none."""
    site = places.site
    if reference is None:
        yield None, ""
    elif site.trees.reference is not None and reference == places.reference:
        yield site.trees.reference, ""
    else:
        with contextlib.ExitStack() as stack:
            try:
                snapshot = site.repository.commit_snapshot(reference.commit)
                tree = stack.enter_context(worktree(site.repository, site.trees, snapshot))
                unbuilt = build(site.settings, "reference", tree, snapshot, site.progress, site.environ)
            except RatchetError as error:
                yield None, str(error)
                return
            yield (None, str(unbuilt)) if unbuilt else (tree, "")


def _profiled(places: Places, wanted: Wanted, reference: Path | None) -> CaseProfile:
    site, case = places.site, wanted.verdict.name
    trees: dict[Side, Path] = {"head": site.trees.head, **({"reference": reference} if reference else {})}
    looked = {side: _looked(site, case, trees[side], wanted.wish, side) for side in files.SIDES if side in trees}
    profiles = {side: one.profile for side, one in looked.items() if one.profile is not None}
    failed: dict[Side, str] = {side: _why(one) for side, one in looked.items() if one.profile is None}
    if wanted.no_reference:
        failed["reference"] = wanted.no_reference
    found = CaseProfile(
        case=case,
        head=profiles.get("head"),
        reference=profiles.get("reference"),
        head_tree=places.head,
        reference_tree=wanted.reference,
        ratio=wanted.verdict.changed_ratio,
        findings=(),
        steps_down=_steps_down({side: one for side, one in looked.items() if side not in failed}),
        failed=failed,
    )
    return kept(diagnosed(found), wanted.verdict, wanted.case, places.background, looked)


def _looked(site: ProfileSite, case: str, tree: Path, wish: Wish, side: Side) -> SideProfile:
    settings = site.settings
    folder = Path(tempfile.mkdtemp(prefix=f"profile-{side}-", dir=site.trees.logs))  # gone with the trees
    spec = tree_spec(settings, site.machine, site.repository.root, tree)
    environ = benchmark_environ(site.environ, spec)
    target = ProfileTarget(spec, case, settings.seed)
    return look_at(target, ProfileRequest(environ, folder, settings.profile_timeout * _SHARE / len(files.SIDES), wish))


def _why(looked: SideProfile) -> str:
    return " ".join(looked.steps_down) or "No profiler saw anything."


def _steps_down(looked: Mapping[Side, SideProfile]) -> tuple[str, ...]:
    """Each sentence once; those of one side alone say of which."""
    sentences = dict.fromkeys(sentence for one in looked.values() for sentence in one.steps_down)
    both = len(looked) > 1
    found = []
    for sentence in sentences:
        sides = [side for side, one in looked.items() if sentence in one.steps_down]
        found.append(f"{sides[0].capitalize()}: {sentence}" if both and len(sides) == 1 else sentence)
    return tuple(found)
