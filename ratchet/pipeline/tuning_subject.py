"""The case that is tuned: what it may be tuned in, and which other cases share that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.config import Settings
from ratchet.errors import RatchetError, UnfitError, UsageError
from ratchet.measure.messages import DECLARATION, Listing, SpaceFound
from ratchet.measure.selection import choose_cases
from ratchet.measure.side import CaseTrouble, HostHandle, Worker, refuse_foreign
from ratchet.measure.tuning.place import Place
from ratchet.pipeline.machine import Machine, plan_of
from ratchet.pipeline.tuning_space import ENUMERATOR
from ratchet.records.run import CaseRun
from ratchet.records.tuning import Configuration
from ratchet.report.progress import Progress


@dataclass(frozen=True)
class Site:
    """Where a case is tuned."""

    root: Path
    settings: Settings
    machines: tuple[Machine, ...]
    places: tuple[Place, ...]
    progress: Progress
    environ: Mapping[str, str]


def chosen(listing: Listing, patterns: Sequence[str]) -> tuple[CaseRun, list[str]]:
    """The one case that is named, and the other cases of its benchmark. Raises UsageError, UnfitError."""
    cases = choose_cases(listing, None, patterns)
    if len(cases) != 1:
        names = ", ".join(case.name for case in cases[:5])
        raise UsageError(f"{patterns[0]} names {len(cases)} cases ({names}): one is tuned at a time.", "Name one of them.")
    case = cases[0]
    if case.failures:
        raise UnfitError(f"{case.name} cannot be tuned: {case.failures[0].message}.", "Fix it and try again.")
    if case.skipped:
        raise UnfitError(f"{case.name} cannot be tuned here: it {case.skipped}.", "See `ratchet list`.")
    every = choose_cases(listing, None, ())
    siblings = [each.name for each in every if each.benchmark == case.benchmark and each.name != case.name and not each.skipped]
    return case, siblings


def space_of(scout: HostHandle, case: CaseRun, site: Site, codes: Path) -> SpaceFound:
    """What the case may be tuned in.

    Raises UsageError where there is nothing to choose or the declaration contradicts itself, UnfitError where it cannot be built.
    """
    worker = scout.fork()
    try:
        found = _asked_space(worker, case.name, site, codes)
    except CaseTrouble as error:
        raise _unbuilt(case.name, error) from None
    finally:
        worker.end()
    refuse_foreign("head", found.foreign)
    if not found.space:
        where = "on the CPU" if site.machines[0].device == "cpu" else "on a GPU"
        raise UsageError(
            f"{case.name} has no parameters to tune {where}.", "Give its workload `tune` and `tuning` there: docs/tuning.md."
        )
    if found.error:
        raise UsageError(f"{case.name}: {found.error}", found.hint)
    if found.count == 1:
        raise UsageError(
            f"The space of {case.name} has one configuration, which is in use: there is nothing to tune.",
            "Give `tune` of its workload more values, or let its constraints leave more of them.",
        )
    return found


def _unbuilt(case: str, trouble: CaseTrouble) -> RatchetError:
    if trouble.stage == DECLARATION:
        return UsageError(
            f"The space of {case} contradicts itself: {trouble.message}.",
            "Fix `tune`, `tuning` or `constraints` of its workload: docs/tuning.md says how they fit together.",
        )
    return UnfitError(f"{case} cannot be built: {trouble.message}.", f"See `ratchet run {case}`.")


def _asked_space(worker: Worker, case: str, site: Site, codes: Path | None) -> SpaceFound:
    """What a worker says of a case's space, which it enumerates to ``codes`` if that is given. Raises CaseTrouble."""
    plan = plan_of(site.settings, site.machines[0].device)
    enumerator = ENUMERATOR if codes else ""
    return worker.ask(
        "space",
        SpaceFound,
        case=case,
        seed=plan.seed,
        clock=plan.clock,
        cache=plan.cache,
        enumerator=enumerator,
        codes=str(codes or ""),
    )


def sharing(scout: HostHandle, siblings: Sequence[str], best: Configuration, site: Site, until: float) -> list[str]:
    """The other cases of the benchmark that have these parameters with these values; none of them after ``until``."""
    scout.until = until
    found: list[str] = []
    worker: Worker | None = None
    for name in siblings:
        try:
            worker = worker or scout.fork()
            space = _asked_space(worker, name, site, None).space
        except CaseTrouble:
            if worker is not None:
                worker.end(kill=True)
            worker = None
            continue
        if set(space) == set(best) and all(value in space[parameter] for parameter, value in best.items()):
            found.append(name)
    if worker is not None:
        worker.end()
    return found
