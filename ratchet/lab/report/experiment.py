"""Write a session of experiments: the lines that people and scripts read, the table ``experiments.tsv``, and ``HANDOFF.md``.

The names, columns and lines are those that scripts of such sessions read already. `ratchet.lab.cli` and
`ratchet.lab.experiment` call it. Pure, apart from reading a template of this package.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ratchet.core import units
from ratchet.core.report.markdown import template
from ratchet.core.untrusted import clean, log_line
from ratchet.lab.judge import E2E, candidate
from ratchet.lab.records.experiment import (
    LISTED,
    PROFILED_CALLS,
    WARM_UPS,
    WHOLE,
    Equality,
    ExperimentRecord,
    Gain,
    HotSpot,
    ResultRow,
    SessionRecord,
    StageChange,
    StatusRecord,
)
from ratchet.lab.targets import QUESTIONS, target_text, targets

COLUMNS = tuple(ResultRow.model_fields)
NOTHING = "nan"
"""A figure that was not measured: every reader of tables knows it."""
_NAME = 60


def baseline_lines(session: SessionRecord) -> Iterator[str]:
    """Yield the lines of ``ratchet experiment start``."""
    baseline, on_gpu = session.baseline, bool(session.baseline.by_cuda)
    yield f"[gpu baseline] {log_line(session.case)}: {PROFILED_CALLS} calls after {WARM_UPS} warm-ups, with stacks and shapes"
    if on_gpu:
        yield f"=== CUDA time ranking (top {LISTED}) ==="
        yield from _ranking(baseline.by_cuda, on_gpu=on_gpu)
    else:
        yield "Measured on a CPU: there is no CUDA time, and copies are those of the CPU."
    yield f"=== CPU time ranking (top {LISTED}) ==="
    yield from _ranking(baseline.by_cpu, on_gpu=on_gpu)
    yield "=== Memory events ==="
    for row in baseline.copies:
        yield f"  {log_line(row.name, _NAME)}: count={row.count}, {'cuda' if on_gpu else 'cpu'}_time={row.us:.1f}us"
    if not baseline.copies:
        yield "  none"
    yield "=== Noise floor: the reference against itself ==="
    for one in session.noise:
        pair = f"one pair scatters by {units.percent(one.spread, 1)}"
        yield f"  {log_line(one.name)}: {one.median_ms * 1e3:.1f}us, {units.interval(one.low, one.high, 1)} %, {pair}"
    worst = max(session.noise[0].high - 1, 1 - session.noise[0].low)
    if worst > E2E:
        yield (
            f"Note: unchanged code seems to change by up to {units.percent(worst, 1)} here, so small gains take many pairs. "
            "Use a quieter machine."
        )
    yield f"Launch floor: {session.floors.launch_us:.2f}us an operation."
    if session.floors.h2d_bytes_per_s and session.floors.d2h_bytes_per_s:
        rates = [units.rate(rate, "B/s") for rate in (session.floors.h2d_bytes_per_s, session.floors.d2h_bytes_per_s)]
        yield f"Copies from pinned memory: {rates[0]}, to pinned memory: {rates[1]}."
    yield "=== Ten questions before the first change ==="
    known = {one.question: one.answer for one in session.checklist if one.from_data}
    for number, (name, question) in enumerate(QUESTIONS.items(), 1):
        yield f"  {number:>2}. {name}: {log_line(known[name]) if name in known else f'not in the trace; {question}'}"
    yield "Answer 3 to 7 before you change anything; where you cannot, profile deeper (`ratchet profile`, `ratchet advise`)."
    found, whole_us = targets(session), session.noise[0].median_ms * 1e3
    if found:
        yield "=== Targets: what costs most ==="
    for number, target in enumerate(found, 1):
        yield f"  {number}. {log_line(target_text(target, whole_us, on_gpu=on_gpu))}"
    for warning in session.warnings:
        yield f"Note: {log_line(warning)}"


def _ranking(spots: Sequence[HotSpot], *, on_gpu: bool) -> Iterator[str]:
    for spot in spots:
        cuda = f"{spot.cuda_us:>12.1f}us cuda" if on_gpu else ""
        shapes = f"  {log_line(spot.shapes, _NAME)}" if spot.shapes else ""
        where = f"  at {log_line(spot.where, _NAME)}" if spot.where else ""
        yield f"  {log_line(spot.name, _NAME):<{_NAME}}{cuda}{spot.cpu_us:>12.1f}us cpu  count={spot.count}{shapes}{where}"


def experiment_lines(one: ExperimentRecord) -> Iterator[str]:
    """Yield the lines of one experiment; the first three kinds of line are for scripts."""
    label = f"[experiment {one.number}]"
    yield f"{label} Target: {log_line(one.stage)}.{log_line(one.pattern)} ({one.estimate_us:.0f}us{_found(one)})"
    ordered = sorted(one.stages, key=lambda stage: stage.name != one.stage)
    for stage in ordered:
        times = f"{stage.before_ms * 1e3:.1f}us -> {stage.after_ms * 1e3:.1f}us"
        yield f"{label} Stage: {log_line(stage.name)} {times} ({_delta(stage)})"
    if one.e2e:
        yield f"{label} E2E: {one.e2e.before_ms:.3f}ms -> {one.e2e.after_ms:.3f}ms ({_delta(one.e2e)})"
    decision = one.decision
    yield f"{label} {decision.status.upper()} ({decision.branch}): {log_line(decision.reason)}"
    if decision.note:
        yield f"  Note: {log_line(decision.note)}"
    again = one.confirmation.model_copy(update={"name": f"{one.stage} again"}) if one.confirmation else None
    for change in filter(None, (one.e2e, one.change_of(one.stage) if one.stage != WHOLE else None, again, one.micro)):
        comparison = change.comparison
        _, interval = units.estimate(comparison.ratio, comparison.low, comparison.high)
        yield f"  {log_line(change.name)}: {interval} % (95 % interval, {units.plural(comparison.pairs, 'pair')} of processes)"
    if one.e2e:
        yield f"  E2E is over {one.calls} calls of each side."
    if one.equality:
        yield f"  {_equality(one.equality)}"
    if one.graph:
        was = "" if one.graph.head == one.graph.reference else f" (before this change: {one.graph.reference})"
        why = f": {log_line(one.graph.why).rstrip('.')}" if one.graph.why else ""
        yield f"  CUDA graph of {log_line(one.stage)}: {one.graph.head}{was}{why}."
    elif one.e2e:
        yield "  CUDA graph: not tested, since there is no GPU."
    if one.tests:
        yield f"  Tests: {one.tests.passed} passed, {one.tests.failed} failed."
    for note in one.notes:
        yield f"  Note: {log_line(note)}"


def _found(one: ExperimentRecord) -> str:
    """Return the category, how many kernels there are where these are the matter, and what the place is a candidate for."""
    note = candidate(one.pattern)
    count = f", {units.plural(one.launches, 'kernel')}" if one.launches and one.category == "dispatch" else ""
    return f"{count} — [{one.category}] {note}" if note else f"{count}, [{one.category}]"


def _equality(equality: Equality) -> str:
    if equality.bitwise:
        return "Results are the same bit for bit."
    largest = "" if equality.largest is None else f", largest difference {equality.largest:.2e}"
    where = f" ({log_line(equality.note)})" if equality.note else ""
    if equality.close:
        return f"Results are not the same bit for bit, but each value is within 1e-5 plus 1e-4 of its size{largest}."
    return f"Results are NOT within atol 1e-5 and rtol 1e-4{largest}{where}: keep it only if that is meant."


def status_lines(status: StatusRecord) -> Iterator[str]:
    """Yield what is known so far and what to try next."""
    since = [f"{_gain(one)} times as fast as at the start" for one in status.gains if one.name == WHOLE]
    hidden = [f"{log_line(one.name)} is {_gain(one)} times as fast" for one in status.gains if one.name != WHOLE]
    if hidden:
        hidden[0] = f"{hidden[0]}, which the whole call is too noisy to show"
    times = ", ".join([f"{status.e2e_ms:.3f}ms a call", *since, *hidden])
    yield f"{log_line(status.case)}: {units.plural(status.experiments, 'experiment')}, {status.kept} kept; {times}."
    dirty = " and the uncommitted changes that were kept" if status.reference.dirty else ""
    yield f"The next change is compared with {status.reference.commit[:10]}{dirty}."
    if status.restore:
        yield f"To go back to that code: {status.restore} (files that you added stay: remove them)."
    if status.minutes_left is not None:
        yield f"Budget: {status.minutes_left:.0f} min left."
    if status.luck:
        luck = status.luck
        yield f"The chance that the best E2E of {luck.of} (experiment {luck.best}) is luck: {units.percent(luck.p_value, 1)}."
    for ceiling in status.ceilings:
        name = f"{ceiling.name[:1].upper()}{ceiling.name[1:]}"
        yield f"{name}: {'reached' if ceiling.reached else 'not reached'} ({ceiling.figures})."
    if status.kept and status.ceilings:
        yield "That is from the profile at the start; ratchet experiment start CASE --again takes another."
    if status.rotation:
        rotation = status.rotation
        step = f"go on with {rotation.next}" if rotation.next else "nothing of the list is left"
        yield f"Rotation: {rotation.exhausted} was discarded three times in a row, so {step}. {rotation.why}"
    if status.escalation:
        yield f"Escalate: {log_line(status.escalation)}"
    if status.targets:
        best = status.targets[0]
        yield f"Next target: {log_line(best.stage)}.{log_line(best.pattern)}, up to {best.cost_us:.0f}us a call."
    if status.plateau:
        yield "Plateau: what was measured leaves little to gain here."


def _gain(gain: Gain) -> str:
    """Return a factor with its interval, in the digits that the interval earns: ``1.07 [1.04, 1.10]``."""
    digits = 2 + units.earned_digits(gain.speedup, gain.low, gain.high, (1.0,))
    return f"{gain.speedup:.{digits}f} [{gain.low:.{digits}f}, {gain.high:.{digits}f}]"


def row_of(case: str, one: ExperimentRecord) -> ResultRow:
    """Return the line of one experiment in the table."""
    stage = one.change_of(one.stage)
    return ResultRow(
        commit=one.commit[:10],
        target_test=clean(case),
        stage=clean(one.stage),
        gpu_baseline_us=f"{stage.before_ms * 1e3:.1f}" if stage else NOTHING,
        gpu_optimized_us=f"{stage.after_ms * 1e3:.1f}" if stage else NOTHING,
        gpu_speedup=f"{1 / stage.comparison.ratio:.3f}" if stage else NOTHING,
        e2e_baseline_ms=f"{one.e2e.before_ms:.4f}" if one.e2e else NOTHING,
        e2e_optimized_ms=f"{one.e2e.after_ms:.4f}" if one.e2e else NOTHING,
        e2e_speedup=f"{1 / one.e2e.comparison.ratio:.3f}" if one.e2e else NOTHING,
        tests_passed=str(one.tests.passed if one.tests else 0),
        tests_failed=str(one.tests.failed if one.tests else 0),
        status=one.decision.status,
        pattern=clean(one.pattern),
        description=clean(one.description),
    )


def table_text(session: SessionRecord) -> str:
    """Return ``experiments.tsv``: a line for each experiment, earlier sessions first."""
    rows = [*session.earlier, *(row_of(session.case, one) for one in session.experiments)]
    lines = [COLUMNS, *(tuple(getattr(row, column) for column in COLUMNS) for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def read_table(text: str) -> tuple[ResultRow, ...]:
    """Read a table with these columns, also one that another tool wrote. Raises ValueError where the columns are others."""
    reader = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ValueError(f"its columns are {clean(' '.join(reader.fieldnames or ()) or 'missing')}, not {' '.join(COLUMNS)}")
    return tuple(ResultRow(**{column: clean(row[column] or "") for column in COLUMNS}) for row in reader)


def handoff_text(session: SessionRecord, status: StatusRecord) -> str:
    """Return ``HANDOFF.md``: all that somebody needs who goes on with the session."""
    return template("lab/handoff.md.j2").render(
        session=session,
        status=status,
        lines=list(status_lines(status)),
        kept=[one for one in session.experiments if one.decision.status == "keep"],
        rows=[(one, row_of(session.case, one)) for one in session.experiments],
        spots=(session.baseline.by_cuda or session.baseline.by_cpu)[:5],
        on_gpu=bool(session.baseline.by_cuda),
        noise=[(one, units.interval(one.low, one.high, 1)) for one in session.noise],
    )


def _delta(change: StageChange) -> str:
    return f"{(change.comparison.ratio - 1) * 100:+.1f}%"
