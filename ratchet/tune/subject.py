"""Find the case that `ratchet tune` tunes, its search space and the cases that share it; begin the record of the session.

`tune` calls this. A worker enumerates the space (`enumerate_space`), since the constraints are the author's code, and writes it
to a temporary file; `restored` reads it in this process, without the constraints. It reads git and earlier records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ratchet.core.bench.client import CaseTrouble, HostClient, WorkerClient, refuse_foreign
from ratchet.core.bench.messages import DECLARATION, Listing
from ratchet.core.bench.selection import choose_cases
from ratchet.core.config import Settings
from ratchet.core.device.environment import describe
from ratchet.core.errors import FingerprintError, GitError, RatchetError, UnfitError, UsageError
from ratchet.core.git import Repository
from ratchet.core.machine import Machine, plan_of
from ratchet.core.records.files import load
from ratchet.core.records.run import CaseRun, Tree
from ratchet.core.records.tuned import EARLIER, TUNED_FILE, TUNING_FOLDER
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, own_output_globs
from ratchet.core.workload import Workload
from ratchet.tune.answers import SpaceFound
from ratchet.tune.records import Configuration, Session, TuningRecord, kept_earlier, tuning_path
from ratchet.tune.station import StationPlace

FOLDER = TUNING_FOLDER


@dataclass(frozen=True)
class TuneRequest:
    """The request of `ratchet tune`: one case, a budget, and options."""

    request: Request
    """Its only pattern names the case."""
    budget_s: float | None = None
    max_evaluations: int | None = None
    strategy: str = "auto"
    seed: int = 0
    resume: bool = False
    executor: Literal["local", "ray"] = "local"
    apply: bool = False
    folder: Path | None = None
    """For the record and the suggestions; None: ``tuning/`` of the repository."""


@dataclass(frozen=True)
class TuningResult:
    """The result of a search, and its files, the record first."""

    record: TuningRecord
    paths: tuple[Path, ...]

    @property
    def kept(self) -> Path | None:
        """The last of the earlier records that this one replaced; None where there is none, or it was resumed."""
        return kept_earlier(self.paths[0]) if len(self.record.sessions) == 1 else None


if TYPE_CHECKING:
    from ratchet.tune.space import Candidates


ENUMERATOR = f"{__name__}:enumerate_space"
"""The function that a worker calls, as ``module:function``."""


def enumerate_space(workload: Workload, codes: Path) -> Mapping[str, Any]:
    """Write the valid configurations to ``codes``, as the places of their values in ``tune``. Return their number.

    Raises UsageError where the constraints leave nothing.
    """
    import numpy as np

    from ratchet.tune.space import Space, candidates

    space = Space({name: tuple(values) for name, values in workload.tune.items()}, tuple(workload.constraints), workload.tuning)
    valid = candidates(space)
    with codes.open("wb") as file:
        np.save(file, valid.codes, allow_pickle=False)
    return {"count": valid.count, "exact": valid.exact}


def restored(listed: SpaceFound, codes: Path) -> Candidates:
    """Return the candidates that `enumerate_space` wrote to ``codes``."""
    import numpy as np

    from ratchet.tune.space import Candidates, Space

    return Candidates(Space(listed.space, (), listed.default), np.load(codes, allow_pickle=False), exact=listed.exact)


# The case that is tuned, its space, and the cases that share it.


@dataclass(frozen=True)
class TuningSite:
    """The checkout, the machines and the settings with which a case is tuned."""

    root: Path
    settings: Settings
    machines: tuple[Machine, ...]
    places: tuple[StationPlace, ...]
    progress: Progress
    environ: Mapping[str, str]


def chosen(listing: Listing, patterns: Sequence[str]) -> tuple[CaseRun, list[str]]:
    """Return the one case that is named, and the other cases of its benchmark. Raises UsageError, UnfitError."""
    cases = choose_cases(listing, None, patterns)
    if len(cases) != 1:
        names = ", ".join(case.name for case in cases[:5])
        raise UsageError(f"{patterns[0]} names {len(cases)} cases ({names}): one is tuned at a time.", "Name one of them.")
    case = cases[0]
    if case.failures:
        raise UnfitError(f"{case.name} cannot be tuned: {case.failures[0].message}.", "Fix it and try again.")
    if case.skipped:
        raise UnfitError(f"{case.name} cannot be tuned here: it {case.skipped}.", "See `ratchet doctor cases`.")
    every = choose_cases(listing, None, ())
    siblings = [
        sibling.name
        for sibling in every
        if sibling.benchmark == case.benchmark and sibling.name != case.name and not sibling.skipped
    ]
    return case, siblings


def space_of(scout: HostClient, case: CaseRun, site: TuningSite, codes: Path) -> SpaceFound:
    """Return the search space of the case, which a worker of ``scout`` enumerates to ``codes``.

    Raises UsageError where there is nothing to choose or the declaration contradicts itself, UnfitError where it cannot be built.
    """
    worker = scout.fork()
    try:
        answer = _ask_for_space(worker, case.name, site, codes)
    except CaseTrouble as error:
        raise _unbuilt(case.name, error) from None
    finally:
        worker.end()
    refuse_foreign("head", answer.foreign)
    if not answer.space:
        where = "on the CPU" if site.machines[0].device == "cpu" else "on a GPU"
        raise UsageError(
            f"{case.name} has no parameters to tune {where}.",
            "Give its workload `tune` and `tuning` there.",
        )
    if answer.error:
        raise UsageError(f"{case.name}: {answer.error}", answer.hint)
    if answer.count == 1:
        raise UsageError(
            f"The space of {case.name} has one configuration, which is in use: there is nothing to tune.",
            "Give `tune` of its workload more values, or let its constraints leave more of them.",
        )
    return answer


def _unbuilt(case: str, trouble: CaseTrouble) -> RatchetError:
    if trouble.stage == DECLARATION:
        return UsageError(
            f"The space of {case} contradicts itself: {trouble.message}.",
            "Fix `tune`, `tuning` or `constraints` of its workload: `ratchet explain tuning` says how they fit together.",
        )
    return UnfitError(f"{case} cannot be built: {trouble.message}.", f"See `ratchet run {case}`.")


def _ask_for_space(worker: WorkerClient, case: str, site: TuningSite, codes: Path | None) -> SpaceFound:
    """Return a worker's answer about a case's space, which it enumerates to ``codes`` if that is given. Raises CaseTrouble."""
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


def sharing(scout: HostClient, siblings: Sequence[str], best: Configuration, site: TuningSite, until: float) -> list[str]:
    """Return the other cases of the benchmark that have these parameters with these values.

    Nothing is asked after ``until`` (`time.monotonic` seconds).
    """
    scout.until = until
    names: list[str] = []
    worker: WorkerClient | None = None
    for name in siblings:
        try:
            worker = worker or scout.fork()
            space = _ask_for_space(worker, name, site, None).space
        except CaseTrouble:
            if worker is not None:
                worker.end(kill=True)
            worker = None
            continue
        if set(space) == set(best) and all(value in space[parameter] for parameter, value in best.items()):
            names.append(name)
    if worker is not None:
        worker.end()
    return names


# The record with which a tuning session begins.


def first_record(
    request: TuneRequest, site: TuningSite, folder: Path, listing: Listing, case: CaseRun, space: SpaceFound
) -> TuningRecord:
    """Return the record with which this session begins: a new one, or with --resume that of earlier sessions.

    Raises RecordError where the earlier one cannot be read, UsageError where there is none, FingerprintError where it is of
    another space, machine or code.
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
    before = _earlier(path, folder, case.name) if request.resume else None
    session = Session(
        started_at=datetime.now(UTC),
        command=request.request.command,
        strategy=request.strategy,
        seed=request.seed,
        budget_s=request.budget_s,
        max_evaluations=request.max_evaluations,
        executor=request.executor,
        gpus=tuple(place.name for place in site.places),
        first=len(before.evaluations) if before else 0,
    )
    record = TuningRecord(
        case=case.name,
        benchmark=case.benchmark,
        config=case.config.name,
        workload=space.workload,
        environment=environment,
        head=_code(site.root, site.settings, folder),
        space=space.space,
        constraints=space.constraints,
        valid=space.count if space.exact else None,
        default=space.default,
        sessions=(*(before.sessions if before else ()), session),
        evaluations=before.evaluations if before else (),
    )
    differences = before.differences(record) if before else []
    if differences:
        raise FingerprintError(
            f"{path} is about something else ({'; '.join(differences[:3])}), so this search cannot continue it.",
            f"Leave --resume out to start again; the record is kept in {folder / EARLIER}.",
        )
    return record


def _code(root: Path, settings: Settings, folder: Path) -> Tree:
    """Return the checkout as it is, with a digest of its code; outside git nothing is known of it.

    What searches and checks write is no code, committed or not; nor is prose.
    """
    try:
        repository = Repository(root)
        written = own_output_globs(repository, root / settings.results, folder)
        snapshot = repository.working_snapshot(written)
        files = repository.listing(snapshot.revision)
    except (GitError, UsageError):
        return Tree(commit="")
    apart = (*written, f"{settings.bench}/{TUNED_FILE}", "*.md")
    code = sorted((path, blob.hash) for path, blob in files.items() if not any(fnmatchcase(path, glob) for glob in apart))
    return snapshot.tree.model_copy(update={"content": hashlib.sha256(repr(code).encode()).hexdigest()})


def _earlier(path: Path, folder: Path, case: str) -> TuningRecord:
    if path.exists():
        return load(path, TuningRecord)
    stem = f"{case.replace('/', '.')}."
    elsewhere = sorted(file.name for file in folder.glob(f"{stem}*.json"))
    if elsewhere:
        raise FingerprintError(
            f"There is no record of this machine and software to resume: {', '.join(elsewhere[:3])} is of another.",
            "Leave --resume out to start again.",
        )
    raise UsageError(f"There is nothing to resume: {path} does not exist.", "Leave --resume out to start again.")
