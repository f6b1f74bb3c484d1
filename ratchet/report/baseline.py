"""The baseline file as lines of text: what it holds, how each case got there, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet import units
from ratchet.records.baseline import Baseline, BaselineEntry, FingerprintBaseline
from ratchet.records.chain import Measurement, Step
from ratchet.report.escape import CELL, log_line


def baseline_lines(stored: Baseline, path: str) -> list[str]:
    """One block for each kind of machine, one line for each case."""
    lines = [] if stored.fingerprints else [empty(path)]
    for part in stored.fingerprints.values():
        lines += [_machine(part), *table([_row(name, entry) for name, entry in part.configs.items()], right=1)]
    return lines


def history_lines(stored: Baseline, path: str, case: str | None = None) -> list[str]:
    """The chain of every case, or of one: a line for each step, oldest first."""
    lines = [] if stored.fingerprints else [empty(path)]
    for part in stored.fingerprints.values():
        chosen = {name: entry for name, entry in part.configs.items() if case in (None, name)}
        lines += [_machine(part)] if chosen else []
        for name, entry in chosen.items():
            lines += [f"  {log_line(name, CELL)}", *(f"  {line}" for line in table(_chain(entry), right=3))]
    return lines or [log_line(f"{path}: no case is called {case}. See `ratchet baseline show`.")]


def verified_lines(stored: Baseline, path: str, problems: Sequence[str], warnings: Sequence[str]) -> list[str]:
    """A line for each problem and warning, and what was verified."""
    entries = [entry for _, _, entry in stored.every()]
    steps = sum(len(entry.steps) for entry in entries)
    what = f"{_counted(steps, 'step')} of {_counted(len(entries), 'case')} on {_counted(len(stored.fingerprints), 'machine')}"
    said = f"{_counted(len(problems), 'problem')} in {what}." if problems else f"{what}, and everything fits."
    lines = [*problems, *(f"Warning: {warning}" for warning in warnings), f"{path}: {said}" if entries else empty(path)]
    return [log_line(line, 600) for line in lines]


def empty(path: str) -> str:
    """What to do where nothing is stored."""
    return log_line(f"{path}: no baseline yet. Measure with `ratchet check`, then `ratchet baseline record`.")


def table(rows: Sequence[tuple[str, ...]], right: int) -> list[str]:
    """Indented lines with columns as wide as they need to be; the column ``right`` is set to the right."""
    shown = [[log_line(cell) for cell in row] for row in rows]  # before padding, which it would take away
    columns = [(number, max(len(cell) for cell in column)) for number, column in enumerate(zip(*shown, strict=True))]
    cells = [[f"{row[at]:{'>' if at == right else '<'}{width}}" for at, width in columns if width] for row in shown]
    return [f"  {'  '.join(row).rstrip()}" for row in cells]


def milliseconds(value: float | None) -> str:
    """A stored time as text."""
    return units.duration(value * 1e-3) if value else ""


def moved_by(found: Measurement) -> str:
    """``−7.29 % [−7.43, −6.97]``."""
    low, high = (units.change(bound).removesuffix(" %") for bound in (found.low, found.high))
    return f"{units.change(found.ratio)} [{low}, {high}]"


def short(commit: str) -> str:
    """The first ten digits."""
    return commit[:10]


def _machine(part: FingerprintBaseline) -> str:
    machine = part.fingerprint
    software = [
        f"driver {machine.driver}" if machine.driver else "",
        f"CUDA {machine.cuda}" if machine.cuda else "",
        f"torch {machine.torch}",
    ]
    return log_line(f"{machine.gpu or machine.cpu} ({', '.join(word for word in software if word)}) [{machine.key}]")


def _row(name: str, entry: BaselineEntry) -> tuple[str, ...]:
    interval = f"[{milliseconds(entry.ci_95_low)}, {milliseconds(entry.ci_95_high)}]"
    last = entry.steps[-1]
    steps = f"{_counted(len(entry.steps), 'step')}, {last.kind} {last.timestamp:%Y-%m-%d}"
    waits = entry.candidate
    steps += f"; {short(waits.commit)} waiting, {units.change(waits.measurement.ratio)}" if waits else ""
    return name, milliseconds(entry.median_ms), interval, short(entry.git_commit), f"{entry.timestamp:%Y-%m-%d}", steps


def _chain(entry: BaselineEntry) -> list[tuple[str, ...]]:
    rows = [_step(step) for step in entry.steps]
    if entry.candidate:
        found, commit = entry.candidate.measurement, short(entry.candidate.commit)
        rows.append((f"{found.started_at:%Y-%m-%d}", "waiting", commit, "", moved_by(found), "for a second measurement"))
    return rows


def _step(step: Step) -> tuple[str, ...]:
    told = [f"was {step.previous_name}"] if step.previous_name else []
    told += [f"by {step.by}"] if step.by else []
    words = f"{', '.join(told)}: {step.reason}" if told and step.reason else step.reason or ", ".join(told)
    time = milliseconds(step.median_ms)
    return f"{step.timestamp:%Y-%m-%d}", step.kind.value, short(step.commit), time, _by_how_much(step), words


def _by_how_much(step: Step) -> str:
    """Of two measurements their mean, of one its interval; and what it was measured against, if not the step before."""
    if len(step.measurements) == 1:
        (found,) = step.measurements
        return moved_by(found) if step.ratio else f"{moved_by(found)} against {short(found.reference)}"
    several = f", {len(step.measurements)} measurements" if step.measurements else ""
    return f"{units.change(step.ratio)}{several}" if step.ratio else ""


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
