"""Text for `ratchet doctor soak`: how often unchanged code was red, with its bound. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from ratchet.core import units
from ratchet.core.report.words import NOTHING, aligned
from ratchet.core.untrusted import CELL, log_line
from ratchet.trust.judge import CaseMeter, Meter, Share


def soak_lines(found: Sequence[Meter]) -> list[str]:
    """Return a paragraph and a table for each machine, rule and planted slowdown."""
    lines: list[str] = []
    for meter in found:
        lines += [*_sentences(meter), "", *_table(meter), ""]
    return lines[:-1] or ["There are no checks yet."]


def soak_json(found: Sequence[Meter]) -> list[dict[str, Any]]:
    """Return JSON fields for other programs."""
    adapter = TypeAdapter(Meter)
    return [adapter.dump_python(meter, mode="json") | {"holds": meter.holds} for meter in found]


def _bound(share: Share) -> str:
    return units.percent(share.high, 1 if share.high >= 0.01 else 2)


def _sentences(meter: Meter) -> list[str]:
    where = f"{log_line(meter.device)}, gate {units.threshold(meter.gate)}"
    when = f"{meter.first:%Y-%m-%d %H:%M} to {meter.last:%Y-%m-%d %H:%M} UTC"
    checks = units.plural(meter.red.of, "check")
    if meter.planted:
        lines = [
            f"{where}: {checks} with some cases slowed by {units.percent(meter.planted, 2)} ({when}).",
            f"{meter.caught.count} of {units.plural(meter.caught.of, 'slowed case')} were red: with 95 % confidence more than "
            f"{units.percent(meter.caught.low, 1)} are caught.",
        ]
    else:
        lines = [
            f"{where}: {checks} of unchanged code, {meter.red.count} red ({when}).",
            f"With 95 % confidence fewer than {_bound(meter.red)} of such checks are red; promised: "
            f"{units.threshold(meter.false_alarm)}.",
        ]
        if not meter.holds:
            advice = "See which cases are red, then run `ratchet doctor calibrate`."
            lines.append(f"More are red than promised, and chance does not explain it. {advice}")
    if meter.without_verdict:
        lines.append(f"{units.plural(meter.without_verdict, 'further check')} could measure nothing.")
    return [*lines, "Answers: " + ", ".join(f"{count} {outcome}" for outcome, count in meter.answers.items())]


def _table(meter: Meter) -> list[str]:
    head = ("Case", "Checks", "Red", "MDE", "Spread", "Pairs", "Outliers", "Slower by", "Drift")
    return aligned([head, *map(_row, sorted(meter.cases, key=lambda case: (-case.red.count, -case.spread)))], "<>>>>>>>>")


def _row(case: CaseMeter) -> tuple[str, ...]:
    error = "" if case.slower_error is None else f" ± {case.slower_error * 100:.2f}"
    return (
        log_line(case.name, CELL),
        str(case.red.of),
        str(case.red.count),
        NOTHING if case.mde is None else units.percent(case.mde, 2),
        units.percent(case.spread, 2),
        f"{case.pairs:.1f}",
        str(case.outliers),
        f"{units.change(1 + case.slower).removesuffix(' %')}{error} %",
        NOTHING if case.drift is None else units.change(1 + case.drift),
    )
