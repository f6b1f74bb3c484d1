"""Carry out `ratchet experiment start`, and keep and show the session that it opens; `experiment_run` adds experiments to it.

`start` holds the device, checks the working tree out twice, builds and runs it: a profile of the case, and the noise of this
machine. A session is one record, and the table and the handoff that are made from it, all in the results folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet import tools
from ratchet.core.bench.build import without_secrets
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.git import Repository, worktrees
from ratchet.core.judge.rule import Rule
from ratchet.core.machine import Machine, environment_of, machine_of, plan_of
from ratchet.core.records.files import load, save, save_text
from ratchet.core.records.run import CaseRun, Plan
from ratchet.core.records.verdict import Comparison
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, own_output_globs, watched, writable
from ratchet.core.trees import build_twice, tree_specs
from ratchet.lab.judge import ceilings, change_between, gain_of, is_plateau, luck, rotation
from ratchet.lab.measure.experiment import open_experiment
from ratchet.lab.records.experiment import WHOLE, ExperimentRecord, Noise, ResultRow, SessionRecord, StatusRecord
from ratchet.lab.report.experiment import handoff_text, read_table, row_of, table_text
from ratchet.lab.rules import pairs_by_stage
from ratchet.lab.targets import advised, escalation, targets

SESSION, TABLE, HANDOFF = "experiments/session.json", "experiments.tsv", "HANDOFF.md"
PAIRS, NOISE_PAIRS, CASE_TIMEOUT_S = 20, 8, 60
"""Most pairs of an experiment, pairs of the reference against itself, and the longest step of a case."""
BLOCKS = 8
"""With three samples in each, eight pairs are 192 calls a side."""
ADVISED_S = 2.0
"""How long the case is traced for the checklist and the targets."""


@dataclass(frozen=True)
class StartRequest:
    """The case, and what the session needs to know beyond it."""

    tests: str = ""
    test_limit_s: float = 600.0
    minutes: float | None = None
    table: Path | None = None
    """A table of another tool to begin with."""
    again: bool = False
    """Close the session that is open."""


def start(wanted: StartRequest, request: Request, progress: Progress, environ: Mapping[str, str]) -> SessionRecord:
    """Open a session on one case.

    Raises UsageError where one is open or the case is not one, UnfitError where it cannot be profiled and measured.
    """
    repository = Repository(request.folder)
    settings = settings_of(request, repository.root, environ)
    results = writable(repository.root / settings.results)
    _earlier(results, wanted)  # refused before anything is measured
    tests = _words(wanted.tests)
    code = repository.working_snapshot(own_output_globs(repository, results))
    started = datetime.now(UTC)
    with (
        machine_of(request.devices, settings, f"ratchet experiment in {repository.root}", progress, environ) as machine,
        worktrees(repository, code, code) as trees,
        watched(repository.root, results, progress),
    ):
        build_twice(settings, trees, code, progress, environ)
        specs = tree_specs(settings, machine, repository.root, trees.head, trees.reference)
        plan = plan_of_case(settings, machine)
        with open_experiment(specs, request.patterns[:1], plan, machine, progress, without_secrets(environ)) as experiment:
            profiled, timed = experiment.begun(Rule((min(NOISE_PAIRS, settings.pairs),)))
    session = SessionRecord(
        started_at=started,
        command=request.command,
        case=timed.name,
        environment=environment_of(machine),
        start=code.tree,
        tests=tests,
        test_limit_s=wanted.test_limit_s,
        minutes=wanted.minutes,
        baseline=profiled.baseline,
        stages_activity=profiled.stages,
        floors=profiled.floors,
        noise=_noise(timed),
        warnings=machine.warnings,
    )
    session = _with_advice(session, request, progress, environ)
    # An experiment may have ended meanwhile, or another session have been opened.
    session = session.model_copy(update={"earlier": _earlier(results, wanted)})
    save_session(results, session)
    return session


def _with_advice(session: SessionRecord, request: Request, progress: Progress, environ: Mapping[str, str]) -> SessionRecord:
    """Add the answers and findings of `ratchet advise`. A case that gives it no trace still begins a session, with a warning."""
    part = tools.part("advise")
    try:
        advice = part.advise(part.AdviceRequest(session.case, trace_for_s=ADVISED_S), request, progress, environ)
    except RatchetError as error:
        why = f"The checklist has no answers from a trace: {error.message}"
        return session.model_copy(update={"warnings": (*session.warnings, why)})
    answers = advice.checklist
    return session.model_copy(update={"checklist": answers, "advised": advised(advice, session)})


def settings_of(request: Request, root: Path, environ: Mapping[str, str]) -> Settings:
    """Return the settings, with few pairs and short steps unless options say otherwise."""
    given = {name: value for name, value in request.options.items() if value is not None}
    return load_settings(root, environ, {"pairs": PAIRS, "case_timeout": CASE_TIMEOUT_S, **given}, request.folder)


def plan_of_case(settings: Settings, machine: Machine, budget_s: float = 0.0) -> Plan:
    """Return how to measure one case while somebody waits, beginning no further pair after ``budget_s``."""
    own = {"blocks": BLOCKS, "placements": 1 if machine.device == "cpu" else 2, "budget_s": budget_s}
    return plan_of(settings, machine.device).model_copy(update=own)


def _noise(case: CaseRun) -> tuple[Noise, ...]:
    changes = [change_between(name, pairs) for name, pairs in pairs_by_stage(case).items()]
    return tuple(
        Noise(
            name=one.name,
            median_ms=one.before_ms,
            low=one.comparison.low,
            high=one.comparison.high,
            spread=one.comparison.spread,
        )
        for one in changes
        if one is not None
    )


def _earlier(results: Path, wanted: StartRequest) -> tuple[ResultRow, ...]:
    """Return the lines of the session before this one, and of the table of another tool."""
    rows: tuple[ResultRow, ...] = ()
    if (results / SESSION).exists():
        before = load(results / SESSION, SessionRecord)
        if not wanted.again:
            raise UsageError(
                f"A session on {before.case} is open, with {len(before.experiments)} experiments.",
                "Go on with `ratchet experiment run`, or close it with `ratchet experiment start CASE --again`.",
            )
        rows = (*before.earlier, *(row_of(before.case, one) for one in before.experiments))
    if wanted.table:
        try:
            rows = (*rows, *read_table(wanted.table.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise UsageError(
                f"{wanted.table} cannot be imported: {error}.", "Name a table such as .codeflash/results.tsv."
            ) from None
    return rows


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"--tests cannot be read: {error}.", "Quote it as in a shell: --tests 'pytest -q tests'.") from None


# The session: what `start` and `run` write, and the other subcommands read.


def open_session(results: Path) -> SessionRecord:
    """Return the session, and write its table and handoff again where a kill came between. Raises UsageError without one."""
    path = results / SESSION
    if not path.exists():
        raise UsageError(
            "There is no session of experiments here, and none begins without a profile.",
            "Run `ratchet experiment start CASE` before any change.",
        )
    session = load(path, SessionRecord)
    for file, text in _texts(session).items():
        if not (results / file).is_file() or (results / file).read_text(encoding="utf-8", errors="replace") != text:
            save_text(results / file, text)
    return session


def save_session(results: Path, session: SessionRecord) -> None:
    """Write the session, then what is made from it; each file is whole at any time."""
    save(results / SESSION, session)
    for file, text in _texts(session).items():
        save_text(results / file, text)


def status_of(session: SessionRecord, now: datetime | None = None) -> StatusRecord:
    """Return what is known so far and what to try next. Without ``now``, the budget is left out."""
    kept = [one for one in session.experiments if one.decision.status == "keep"]
    by_name: dict[str, list[Comparison]] = {}
    for one in kept:
        branches = {"e2e": one.e2e, "micro": one.micro, "stage confirmed": one.confirmation or one.change_of(one.stage)}
        if shown := branches.get(one.decision.branch):
            by_name.setdefault(shown.name, []).append(shown.comparison)
    gains = [gain_of(name, found) for name, found in by_name.items()]
    code, last = session.reference, session.experiments[-1:]
    return StatusRecord(
        case=session.case,
        reference=session.reference,
        experiments=len(session.experiments),
        kept=len(kept),
        e2e_ms=session.time_us(WHOLE) / 1e3,
        gains=tuple(sorted(gains, key=lambda gain: gain.name != WHOLE)),
        minutes_left=minutes_left(session, now) if now else None,
        luck=luck(session.experiments),
        rotation=rotation(session),
        escalation=escalation(session),
        targets=targets(session),
        ceilings=ceilings(session),
        plateau=is_plateau(session),
        restore=f"git restore --source={(code.content or code.commit)[:12]} --worktree :/"
        if last and last[0].decision.status != "keep"
        else "",
    )


def minutes_left(session: SessionRecord, now: datetime) -> float | None:
    """Return what is left of the budget; None where there is none."""
    if session.minutes is None:
        return None
    return max(0.0, session.minutes - (now - session.started_at).total_seconds() / 60)


def show_experiment(results: Path, number: int | None) -> ExperimentRecord:
    """Return an experiment, by default the last one. Raises UsageError where there is none of this number."""
    session = open_session(results)
    found = [one for one in session.experiments if number in (None, one.number)]
    if not found:
        last = len(session.experiments)
        raise UsageError(
            f"There is no experiment {number or ''}".rstrip() + ".",
            f"They are numbered 1 to {last}." if last else "Run one with `ratchet experiment run`.",
        )
    return found[-1]


def _texts(session: SessionRecord) -> dict[str, str]:
    return {TABLE: table_text(session), HANDOFF: handoff_text(session, status_of(session))}
