"""Carry out `ratchet experiment run`: the working tree against what was kept last, and a decision.

Read it from the top: run the tests, measure, decide, write. It holds the device, runs the user's test command, checks both trees
out in temporary folders, builds and runs them, and writes the session to the results folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ratchet.core.bench.build import without_secrets
from ratchet.core.cache import scratch_folder
from ratchet.core.config import Settings
from ratchet.core.errors import UsageError
from ratchet.core.git import Repository, Snapshot, worktrees
from ratchet.core.machine import Machine, environment_of, machine_of
from ratchet.core.processes import run as run_program
from ratchet.core.records.profile import Category
from ratchet.core.records.run import Failure
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, own_output_globs, watched, writable
from ratchet.core.trees import build, tree_specs
from ratchet.core.untrusted import clean, last_lines
from ratchet.lab.experiment import minutes_left, open_session, plan_of_case, save_session, settings_of
from ratchet.lab.judge import category_of, decide, kind_of
from ratchet.lab.measure.experiment import MeasuredCase, open_experiment
from ratchet.lab.records.experiment import WHOLE, ExperimentRecord, SessionRecord, SuiteOutcome
from ratchet.lab.rules import ExperimentRule, changes_of, evidence_of

BUDGET_S = {"cuda": 15.0, "cpu": 20.0}
"""No pair begins after so many seconds of them, beyond the first eight."""
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?)\b")


@dataclass(frozen=True)
class RunRequest:
    """A change, and the place where its gain should show."""

    description: str
    stage: str
    pattern: str
    category: Category | None = None
    """None: that of a known pattern."""
    micro: str = ""


def run(
    wanted: RunRequest, request: Request, progress: Progress, environ: Mapping[str, str]
) -> tuple[SessionRecord, ExperimentRecord]:
    """Try the working tree, and record what came of it.

    Raises UsageError without a session, budget, change or such a stage; UnfitError where the reference gives no time.
    What goes wrong in the working tree is in the record.
    """
    repository = Repository(request.folder)
    settings = settings_of(request, repository.root, environ)
    results = writable(repository.root / settings.results)
    with machine_of(request.devices, settings, f"ratchet experiment in {repository.root}", progress, environ) as machine:
        session = open_session(results)
        here = environment_of(machine).fingerprint
        if here.hardware != session.environment.fingerprint.hardware:
            raise UsageError("The session was begun on another device.", "Run it there, or begin another one with start --again.")
        left = _refuse_over(session)
        category = _checked(wanted, session)
        head = repository.working_snapshot(own_output_globs(repository, results))
        reference = repository.snapshot_of(session.reference)
        if head.tree.content == reference.tree.content:
            raise UsageError(
                f"Nothing has changed since {reference.tree.commit[:10]}, which is the reference.", "Change the code, then run."
            )
        started, clock = datetime.now(UTC), time.monotonic()
        tests = _tests(session, repository.root / settings.project, progress, environ)
        found = MeasuredCase(session.case)
        if tests is None or not (tests.failed or tests.problem):
            with watched(repository.root, results, progress):
                found = _measure(wanted, session, settings, machine, (repository, head, reference), left, progress, environ)
        fields = _judged(wanted, found, tests)
        record = ExperimentRecord.model_validate(
            {
                "number": len(session.experiments) + 1,
                "started_at": started,
                "wall_s": time.monotonic() - clock,
                "description": clean(wanted.description),
                "stage": wanted.stage,
                "pattern": wanted.pattern,
                "category": category,
                "kind": kind_of(wanted.pattern, category),
                "estimate_us": session.time_us(wanted.stage),
                "launches": session.launches(wanted.stage),
                "reference": reference.tree,
                "head": head.tree,
                "commit": head.revision,
                "tests": tests,
                "equality": found.equality,
                "graph": found.graph,
                "notes": tuple(found.notes),
                **fields,
            }
        )
        session = session.model_copy(update={"experiments": (*session.experiments, record)})
        save_session(results, session)
    return session, record


def _refuse_over(session: SessionRecord) -> float | None:
    """Return the seconds that are left of the budget. Raises UsageError where it is spent."""
    left = minutes_left(session, datetime.now(UTC))
    if left == 0:
        raise UsageError(
            f"The budget of {session.minutes:g} minutes is spent.",
            "Read `ratchet experiment status`; `ratchet experiment start CASE --again --minutes N` begins another.",
        )
    return None if left is None else left * 60


def _checked(wanted: RunRequest, session: SessionRecord) -> Category:
    """Return the category of the change. Raises UsageError for a stage that is not declared, or an unknown pattern."""
    if wanted.stage not in (WHOLE, *session.stages):
        names = ", ".join((*session.stages, WHOLE))
        raise UsageError(f"{session.case} has no stage {clean(wanted.stage)}: it has {names}.", "Name one of these with --stage.")
    named = {one.pattern: one.category for one in session.advised}
    category = wanted.category or category_of(wanted.pattern) or named.get(wanted.pattern)
    if category is None:
        raise UsageError(
            f"The category of the pattern {clean(wanted.pattern)} is not known.",
            "Add --category: transfer, dispatch, sync, memory, compute or correctness.",
        )
    return category


def _tests(session: SessionRecord, folder: Path, progress: Progress, environ: Mapping[str, str]) -> SuiteOutcome | None:
    """Run the test command in the project of the checkout, within its time limit."""
    if not session.tests:
        return None
    progress.stage("Running the tests")
    try:
        ended = run_program(session.tests, environ=without_secrets(environ), folder=folder, time_limit_s=session.test_limit_s)
    except OSError as error:
        return SuiteOutcome(passed=0, failed=0, problem=f"the test command cannot be started: {error.strerror}")
    if ended.status is None:
        return SuiteOutcome(passed=0, failed=0, problem=f"the tests took more than {session.test_limit_s:g} s")
    lines = last_lines(ended.output, 1)
    counts = {word.rstrip("s"): int(number) for number, word in _COUNT.findall(lines[0] if lines else "")}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if ended.status and not failed:
        said = lines[0] if lines else "it printed nothing"
        problem = f"the test command ended with status {ended.status}: {said}"
        return SuiteOutcome(passed=counts.get("passed", 0), failed=0, problem=clean(problem, 200))
    return SuiteOutcome(passed=counts.get("passed", 0), failed=failed)


def _measure(
    wanted: RunRequest,
    session: SessionRecord,
    settings: Settings,
    machine: Machine,
    code: tuple[Repository, Snapshot, Snapshot],
    left_s: float | None,
    progress: Progress,
    environ: Mapping[str, str],
) -> MeasuredCase:
    repository, head, reference = code
    budget_s = BUDGET_S[machine.device]
    plan = plan_of_case(settings, machine, min(budget_s, left_s) if left_s else budget_s)
    with worktrees(repository, head, reference) as trees, scratch_folder("experiment") as folder:
        if trees.reference and (broken := build(settings, "reference", trees.reference, reference, progress, environ)):
            raise broken
        if broken := build(settings, "head", trees.head, head, progress, environ):
            return MeasuredCase(session.case, failure=Failure(side="head", stage="build", message=broken.message))
        specs = tree_specs(settings, machine, repository.root, trees.head, trees.reference)
        cases = tuple(dict.fromkeys(filter(None, (session.case, wanted.micro))))
        with open_experiment(specs, cases, plan, machine, progress, without_secrets(environ)) as experiment:
            return experiment.compared(ExperimentRule(settings.pairs, wanted.stage), folder)


def _judged(wanted: RunRequest, found: MeasuredCase, tests: SuiteOutcome | None) -> dict[str, object]:
    """Return the decision, and the times that it rests on."""
    changes, again = changes_of(found.timed), changes_of(found.again).get(wanted.stage)
    micro, failure = changes_of(found.micro).get(WHOLE), found.failure
    evidence = replace(
        evidence_of(wanted.stage, found.timed),
        failure=failure.message.rstrip(".") if failure else "",
        is_wrong=failure is not None and failure.stage == "check",
        tests=tests,
        confirmation=again.comparison if again else None,
        micro=micro.comparison if micro else None,
    )
    samples = [block.samples_ms for worker in (found.timed.head if found.timed else ()) for block in worker.blocks]
    return {
        "e2e": changes.pop(WHOLE, None),
        "calls": sum(map(len, samples)),
        "stages": tuple(changes.values()),
        "confirmation": again,
        "micro": micro.model_copy(update={"name": wanted.micro}) if micro else None,
        "failure": evidence.failure,
        "decision": decide(evidence),
    }
