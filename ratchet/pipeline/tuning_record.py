"""The record with which a tuning session begins."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ratchet.errors import FingerprintError, UsageError
from ratchet.measure.environment import describe
from ratchet.measure.messages import Listing, SpaceFound
from ratchet.pipeline.checkout import checked_out
from ratchet.pipeline.tuning_request import TuneRequest
from ratchet.pipeline.tuning_sources import sources_of
from ratchet.pipeline.tuning_subject import Site
from ratchet.records.files import load
from ratchet.records.run import CaseRun
from ratchet.records.tuning import Session, TuningRecord, tuning_path
from ratchet.records.tuning_file import EARLIER


def begun(asked: TuneRequest, site: Site, folder: Path, listing: Listing, case: CaseRun, found: SpaceFound) -> TuningRecord:
    """The record with which this session begins: a new one, or with --resume that of earlier sessions.

    Raises RecordError where that cannot be read, FingerprintError where it is of another space or of other code.
    """
    machine = site.machines[0]
    environment = describe(
        machine.gpu,
        machine.device,
        torch_version=listing.torch,
        cuda_version=listing.cuda,
        triton_version=listing.triton,
        cpu_threads=site.settings.cpu_threads,
    )
    path = tuning_path(folder, case.name, environment.fingerprint)
    file = next(each.file for each in listing.cases if each.name == case.name)
    before = _earlier(path, folder, case.name) if asked.resume else None
    session = Session(
        started_at=datetime.now(UTC),
        command=asked.request.command,
        strategy=asked.strategy,
        seed=asked.seed,
        budget_s=asked.budget_s,
        max_evaluations=asked.max_evaluations,
        executor=asked.executor,
        gpus=tuple(place.name for place in site.places),
        first=len(before.evaluations) if before else 0,
    )
    record = TuningRecord(
        case=case.name,
        benchmark=case.benchmark,
        config=case.config.name,
        workload=found.workload,
        environment=environment,
        head=checked_out(site.root, site.root / site.settings.results, folder),
        sources=sources_of(site.root, site.settings.bench, site.settings.python_path, file),
        space=found.space,
        constraints=found.constraints,
        valid=found.count if found.exact else None,
        default=found.default,
        sessions=(*(before.sessions if before else ()), session),
        evaluations=before.evaluations if before else (),
    )
    differences = before.differences(record) if before else []
    if differences:
        raise FingerprintError(
            f"{path} is about something else ({'; '.join(differences[:3])}), so it cannot be gone on with.",
            f"Leave --resume out to begin anew; the record is kept in {folder / EARLIER}.",
        )
    return record


def _earlier(path: Path, folder: Path, case: str) -> TuningRecord:
    if path.exists():
        return load(path, TuningRecord)
    stem = f"{case.replace('/', '.')}."
    elsewhere = sorted(each.name for each in folder.glob(f"{stem}*.json"))
    if elsewhere:
        raise FingerprintError(
            f"There is nothing of this machine and software to go on with: {', '.join(elsewhere[:3])} is of another.",
            "Leave --resume out to begin anew.",
        )
    raise UsageError(f"There is nothing to go on with: {path} does not exist.", "Leave --resume out to begin anew.")
