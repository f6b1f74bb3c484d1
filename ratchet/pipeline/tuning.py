"""`ratchet tune`: search a case's space within a budget, confirm the best few, and recommend one or none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.cache import scratch_folder
from ratchet.config import load_settings
from ratchet.measure.hosts import Hosts
from ratchet.measure.messages import SpaceFound
from ratchet.measure.tuning.place import Place
from ratchet.measure.tuning.timing import Aim
from ratchet.pipeline.applying import apply_tuning
from ratchet.pipeline.checkout import root_of, watched, writable
from ratchet.pipeline.machine import machines_of, plan_of
from ratchet.pipeline.tuning_files import write_suggestions
from ratchet.pipeline.tuning_finals import decide, refuse_all_failed, try_elsewhere
from ratchet.pipeline.tuning_record import begun
from ratchet.pipeline.tuning_request import FOLDER, Tuned, TuneRequest
from ratchet.pipeline.tuning_session import Session
from ratchet.pipeline.tuning_space import restored
from ratchet.pipeline.tuning_stations import Begin, Distant, local, on_ray
from ratchet.pipeline.tuning_subject import Site, chosen, sharing, space_of
from ratchet.records.tuning import TuningRecord, tuning_path
from ratchet.report.progress import Progress
from ratchet.tune.budget import Budget

if TYPE_CHECKING:
    from ratchet.tune.search import Search


def tune(asked: TuneRequest, progress: Progress, environ: Mapping[str, str]) -> Tuned:
    """Tune one case of the checkout as it stands, in place.

    Everything that is measured is in the record at once, so that an end at any moment loses one evaluation. Raises UsageError
    for a case that cannot be tuned, UnfitError where no configuration gives a time.
    """
    root = root_of(asked.request.folder)
    settings = load_settings(root, environ, asked.request.options)
    folder = writable(asked.folder or root / FOLDER)
    with (
        machines_of(asked.request, settings, f"ratchet tune in {root}", progress, environ) as machines,
        scratch_folder("logs") as logs,
        watched(root, root / settings.results, progress),
    ):
        budget = Budget(time.monotonic(), asked.budget_s)
        places = tuple(Place(root, settings, each.device, each.gpu, environ, logs) for each in machines)
        return _tuned(asked, Site(root, settings, machines, places, progress, environ), folder, budget)


def _tuned(asked: TuneRequest, site: Site, folder: Path, budget: Budget) -> Tuned:
    site.progress.stage("Importing benchmarks")
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(site.places[0].hosts())
        begin = stack.enter_context(_stations(asked, site, hosts))
        scout = hosts.sides["head"]
        listing = scout.listing()
        case, siblings = chosen(listing, asked.request.patterns)
        codes = site.places[0].logs / "codes.npy"
        found = space_of(scout, case, site, codes)
        record = begun(asked, site, folder, listing, case, found)
        path = tuning_path(folder, case.name, record.environment.fingerprint)
        session = Session(record, path, budget, asked.max_evaluations, site.progress)
        search = _search(asked, found, codes, budget, len(site.places))
        session.resume(search)
        session.record = _with_session(session.record, strategy=search.strategy)  # what a killed session is known to have done
        aim = Aim(case.name, found.default, plan_of(site.settings, site.machines[0].device), found.workload.bytes)
        executor = stack.enter_context(begin(aim))
        site.progress.stage(f"Tuning {case.name}: {found.count} configurations, on {', '.join(executor.places)}")
        ended = session.search(search, executor)
        best = decide(session, site, budget, executor)
        if best is not None and budget.for_others(time.monotonic()) > 0:
            names = sharing(scout, siblings, best, site, budget.ends)
            try_elsewhere(session, site, budget, names, executor)
    _end(session, budget, ended, search.strategy)
    done = _written(asked, site, session.record, path)
    refuse_all_failed(session)
    return done


def _search(asked: TuneRequest, found: SpaceFound, codes: Path, budget: Budget, stations: int) -> Search:
    from ratchet.tune.search import Search

    expected = budget.evaluations(asked.max_evaluations, stations)
    return Search(restored(found, codes), asked.strategy, asked.seed, expected)


def _stations(asked: TuneRequest, site: Site, scout: Hosts) -> contextlib.AbstractContextManager[Begin]:
    if asked.executor == "ray":
        return on_ray(Distant(site.root, site.settings, site.places[0].device), site.environ)
    return local(site.places, scout)


def _end(session: Session, budget: Budget, ended: str, strategy: str) -> None:
    """Close this session's entry in the record."""
    wall_s = time.monotonic() - budget.started
    session.keep(_with_session(session.record, wall_s=wall_s, ended=ended, strategy=strategy))


def _with_session(record: TuningRecord, **update: object) -> TuningRecord:
    """The record with other words about its last session."""
    *before, last = record.sessions
    return record.model_copy(update={"sessions": (*before, last.model_copy(update=update))})


def _written(asked: TuneRequest, site: Site, record: TuningRecord, path: Path) -> Tuned:
    """Write what people read, and with --apply what is used from now on."""
    written = [path, *write_suggestions(path)]
    if asked.apply and record.best is not None:
        written.append(apply_tuning([record], site.root / site.settings.bench, site.settings.policy).path)
    return Tuned(record, tuple(written))
