"""Carry out `ratchet tune`: search a case's space within a budget, or use the record of an earlier search.

The command line calls `tune`, which locks devices, starts workers on them or on a Ray cluster, confirms the best few, recommends
one or none, and writes the record and ``suggestions.md`` into the tuning folder; with --apply, also ``tuned.json`` of the
benchmarks. `apply_recorded` uses records and measures nothing.
``.github/scripts/propose.py`` uses `apply_tuning` and `write_suggestions`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ratchet.core.bench.client import Hosts
from ratchet.core.cache import scratch_folder
from ratchet.core.config import load_settings
from ratchet.core.errors import RecordError, UnfitError, UsageError
from ratchet.core.machine import machines_of, plan_of
from ratchet.core.records.files import load, save_over, save_text
from ratchet.core.records.run import Policy
from ratchet.core.records.tuned import SUGGESTIONS, TUNED_FILE, Tuned, TunedCase
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, root_of, settings_of, watched, writable
from ratchet.core.trees import need_benchmarks
from ratchet.core.units import percent, threshold, wall
from ratchet.tune.executor import Budget, Executor
from ratchet.tune.judge import recommend
from ratchet.tune.records import Configuration, Confirmation, TuningRecord, tuning_path
from ratchet.tune.session import Begin, RemoteStationArguments, TuningSession, finalists, local, on_ray
from ratchet.tune.station import StationPlace
from ratchet.tune.subject import FOLDER, TuneRequest, TuningResult, TuningSite, chosen, first_record, restored, sharing, space_of
from ratchet.tune.suggestions import elsewhere, render_suggestions, settings_text
from ratchet.tune.trials import TrialTarget

# The command, from the request to the result.


def tune(request: TuneRequest, progress: Progress, environ: Mapping[str, str]) -> TuningResult:
    """Tune one case of the checkout as it stands, in place.

    Each result is written to the record at once, so that an end at any moment loses only the evaluations that were running.
    Raises UsageError for a case that cannot be tuned, UnfitError where no configuration gives a time, BusyError for a device
    that others hold.
    """
    from ratchet.tune.search import strategy_called

    strategy_called(request.strategy)  # before anything starts
    root = root_of(request.request.folder)
    settings = load_settings(root, environ, request.request.options, request.request.folder)
    need_benchmarks(settings, root, root)
    folder = writable(request.folder or root / FOLDER, "--tuning")
    with (
        machines_of(request.request.devices, settings, f"ratchet tune in {root}", progress, environ) as machines,
        scratch_folder("logs") as logs,
        watched(root, root / settings.results, progress),
    ):
        places = tuple(StationPlace(root, settings, machine.device, machine.gpu, environ, logs) for machine in machines)
        return _tuned(request, TuningSite(root, settings, machines, places, progress, environ), folder, time.monotonic())


def _tuned(request: TuneRequest, site: TuningSite, folder: Path, started: float) -> TuningResult:
    from ratchet.tune.search import Search

    site.progress.stage("Importing benchmarks")
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(site.places[0].hosts())
        begin = stack.enter_context(_stations(request, site, hosts))
        scout = hosts.sides["head"]
        listing = scout.listing()
        case, siblings = chosen(listing, request.request.patterns)
        codes = site.places[0].logs / "codes.npy"
        space = space_of(scout, case, site, codes)
        aim = TrialTarget(case.name, space.default, plan_of(site.settings, site.machines[0].device), space.workload.bytes or 0.0)
        executor = stack.enter_context(begin(aim))  # before all that needs no device: meanwhile the stations start
        record = first_record(request, site, folder, listing, case, space)
        path = tuning_path(folder, case.name, record.environment.fingerprint)
        now = time.monotonic()
        budget, startup_s = Budget(now, request.budget_s), now - started
        session = TuningSession(record, path, budget, request.max_evaluations, site.progress)
        expected = budget.evaluations(request.max_evaluations, len(executor.places))
        search = Search(restored(space, codes), request.strategy, request.seed, expected)
        session.resume(search)
        # Noted now, so that a killed session has them too.
        began = datetime.now(UTC) - timedelta(seconds=startup_s)
        session.record = _with_session(session.record, strategy=search.strategy, started_at=began, startup_s=startup_s)
        where = f"on {', '.join(executor.places)}, after {wall(startup_s)} to start"
        site.progress.stage(f"Tuning {case.name}: {space.count} configurations, {where}")
        ended = session.search(search, executor)
        best = decide(session, site, budget, executor)
        if best is not None and budget.for_others(time.monotonic()) > 0:
            names = sharing(scout, siblings, best, site, budget.ends)
            try_elsewhere(session, site, budget, names, executor)
    wall_s = time.monotonic() - started
    session.keep(_with_session(session.record, wall_s=wall_s, ended=ended, strategy=search.strategy))
    written = [path, write_suggestions(folder)]
    if request.apply and session.record.best is not None:
        written.append(apply_tuning([session.record], site.root / site.settings.bench, site.settings.policy).path)
    refuse_all_failed(session)
    return TuningResult(session.record, tuple(written))


def _stations(request: TuneRequest, site: TuningSite, scout: Hosts) -> contextlib.AbstractContextManager[Begin]:
    if request.executor == "ray":
        return on_ray(RemoteStationArguments(site.root, site.settings, site.places[0].device), site.environ)
    return local(site.places, scout)


def _with_session(record: TuningRecord, **update: object) -> TuningRecord:
    """Return the record with changed fields of its last session."""
    *before, last = record.sessions
    return record.model_copy(update={"sessions": (*before, last.model_copy(update=update))})


# After the search: compare the best few with the default, and the winner on the benchmark's other configs.


PROMISING = 0.98
"""Share of the default's time. A configuration that took more is not confirmed: it will hardly turn out a twentieth faster."""


def refuse_all_failed(session: TuningSession) -> None:
    """Raise UnfitError where no configuration gives a time."""
    evaluations = session.record.evaluations
    if not evaluations:
        raise UnfitError("The time was over before one configuration had been tried.", "Give it more with --time-budget.")
    if not any(evaluation.timed for evaluation in evaluations):
        counts = Counter(evaluation.outcome for evaluation in evaluations)
        outcomes = ", ".join(f"{outcome}: {count}" for outcome, count in counts.most_common())
        raise UnfitError(
            f"None of the {len(evaluations)} configurations tried gives a time ({outcomes}). The first: {evaluations[0].reason}.",
            f"The record has the reasons of all; `ratchet run {session.record.case}` shows what the default does.",
        )


def decide(session: TuningSession, site: TuningSite, budget: Budget, executor: Executor) -> Configuration | None:
    """Confirm the best few, and keep the verdict. Return the configuration that is recommended, None if there is none."""
    record = session.record
    most = budget.finalists(time.monotonic())
    best = list(finalists(record.evaluations, record.default, most, PROMISING))
    confirmed: list[Confirmation] = []
    if best:
        site.progress.stage(f"Confirming the best {len(best)} against the default in pairs")
        confirmed = session.finals(record.case, best, budget.for_finals(time.monotonic()), executor)
        confirmed.sort(key=lambda confirmation: confirmation.comparison.ratio if confirmation.comparison else math.inf)
    recommendation = recommend(confirmed, site.settings.policy)
    verdict = recommendation.verdict if best else _none_promising(record)
    update = {"confirmations": tuple(confirmed), "others": (), "best": recommendation.best, "verdict": verdict}
    session.keep(session.record.model_copy(update=update))
    return recommendation.best


def _none_promising(record: TuningRecord) -> str:
    """Return the verdict of a search in which nothing was fast enough to be confirmed."""
    times = [evaluation.normalised for evaluation in record.evaluations if evaluation.normalised is not None]
    if not times:
        timed = [evaluation for evaluation in record.evaluations if evaluation.median_ms is not None]
        fastest = min(timed, key=lambda evaluation: evaluation.median_ms or 0.0, default=None)
        fastest_text = f"; the fastest is {settings_text(fastest.configuration)}" if fastest else ""
        return f"No change recommended: the default gives no time here, so nothing was compared with it{fastest_text}."
    best = f"of {len(record.evaluations)} configurations tried, the best takes {percent(min(times), 1)} of the default's time"
    return f"No change recommended: {best}."


def try_elsewhere(session: TuningSession, site: TuningSite, budget: Budget, names: Sequence[str], executor: Executor) -> None:
    """Compare the winner with the defaults of the benchmark's other configs, and add that to the verdict."""
    for left, name in zip(range(len(names), 0, -1), names, strict=True):
        seconds = budget.for_others(time.monotonic()) / left
        if seconds > 0 and session.record.best is not None:
            site.progress.stage(f"Trying the winner on {name}")
            others = (*session.record.others, *session.finals(name, [session.record.best], seconds, executor))
            session.keep(session.record.model_copy(update={"others": others}))
    if session.record.others:
        verdict = f"{session.record.verdict.rstrip('.')}; {elsewhere(session.record.others)}."
        session.keep(session.record.model_copy(update={"verdict": verdict}))


# The file for people: ``suggestions.md`` over all records of a folder.


def write_suggestions(folder: Path) -> Path:
    """Write the report on every record of a folder, naming those that cannot be read. Return its path. Raises OutputError."""
    records, warnings = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(load(path, TuningRecord))
        except RecordError as error:
            warnings.append(f"{path.name} was left out: {error.message.replace(str(path), 'it')}")
    save_text(folder / SUGGESTIONS, render_suggestions(records, warnings))
    return folder / SUGGESTIONS


# `ratchet tune --record`: apply the recommendations of earlier searches.


@dataclass(frozen=True)
class AppliedTuning:
    """The file that was written, and a sentence for each record: what it changed, or why it changed nothing."""

    path: Path
    lines: tuple[str, ...]


def apply_recorded(paths: Sequence[Path], request: Request, environ: Mapping[str, str]) -> AppliedTuning:
    """Apply records that a search wrote earlier, perhaps on another machine, to the checkout of the request.

    Raises RecordError for a file that is no whole record, and as `apply_tuning` does.
    """
    root, settings = settings_of(request, environ)
    return apply_tuning([load(path, TuningRecord) for path in paths], root / settings.bench, settings.policy)


def apply_tuning(records: Sequence[TuningRecord], bench: Path, policy: Policy) -> AppliedTuning:
    """Write the recommendations of ``records`` into the tuned parameters of a folder of benchmarks; all else in it stays.

    Each is judged again from its comparisons. Raises UsageError where none is an improvement, RecordError where the present
    file cannot be read (it is left as it is), OutputError where it cannot be written.
    """
    path = bench / TUNED_FILE
    before = load(path, Tuned) if path.exists() else Tuned()
    cases = {case: dict(devices) for case, devices in before.cases.items()}
    lines, changed = [], False
    for record in records:
        made = _tuned_case(record, policy)
        device = record.environment.fingerprint.processor
        if made is None:
            lines.append(f"{record.case} on {device}: nothing to apply. {record.verdict or 'Nothing was confirmed.'}")
            continue
        cases.setdefault(record.case, {})[device] = made
        shown = ", ".join(f"{name}={value}" for name, value in made.parameters.items())
        lines.append(f"{record.case} on {device}: {shown}, {percent(1 - 1 / made.speedup, 1)} less time.")
        changed = True
    if not changed:
        need = f"Only what takes {threshold(policy.improvement)} less time in interleaved pairs, with evidence, is applied."
        raise UsageError(" ".join(lines) or "There is no tuning record to apply.", need)
    ordered = {case: dict(sorted(devices.items())) for case, devices in sorted(cases.items())}
    save_over(path, Tuned(cases=ordered))
    return AppliedTuning(path, tuple(lines))


def _tuned_case(record: TuningRecord, policy: Policy) -> TunedCase | None:
    """Return the entry for a record's recommendation; None without one, or where its own comparisons do not support it."""
    comparison = record.confirmed(record.best) if record.best else None
    if record.best is None or comparison is None or recommend(record.confirmations, policy).best != record.best:
        return None
    fingerprint = record.environment.fingerprint
    return TunedCase(
        parameters=record.best,
        speedup=1 / comparison.ratio,
        speedup_low=1 / comparison.high,
        speedup_high=1 / comparison.low,
        confidence=comparison.confidence,
        pairs=comparison.pairs,
        default=record.default,
        commit=record.head.commit,
        date=record.sessions[-1].started_at,
        driver=fingerprint.driver,
        cuda=fingerprint.cuda,
        torch=fingerprint.torch,
        triton=fingerprint.triton,
    )
