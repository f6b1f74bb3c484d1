"""The history in a terminal: a line for each case, or for each run of a case, with the trend as a row of bars.

`ratchet.history.cli` prints it. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ratchet.core import units
from ratchet.core.report.words import NOTHING, WORDS, aligned
from ratchet.core.untrusted import CELL, clean, log_line
from ratchet.history.records import HistoryCase, Point, Series

TREND_RUNS = 40
"""Runs that a trend shows."""
BARS = "▁▂▃▄▅▆▇█"
_BREAK = "┊"
LEAST_SPREAD = 0.02
"""A trend that moves by less stays low: bars that fill the line would show noise as if it were news."""


def overview_lines(every: Sequence[Series]) -> list[str]:
    """Return a block for each kind of hardware, with a line for each case."""
    lines = []
    for hardware, group in itertools.groupby(sorted(every, key=lambda one: one.hardware), key=lambda one: one.hardware):
        rows = [("case", "runs", "latest", "time", "since anchor", "", "roof", "trend", ""), *map(_row, group)]
        lines += [log_line(hardware, CELL), *aligned(rows, "<>>>>>><<", indent="  ")]
    return lines


def case_lines(series: Series, last: int) -> list[str]:
    """Return a title, the trend, and a line for each of the last runs; a break of the series is a line of its own."""
    shown = series.points[-last:]
    against = f"; change against the anchor {series.origin[:10]}" if series.origin else "; no anchor was measured yet"
    head = f"{series.case} on {series.hardware}: {units.plural(series.runs, 'run')}{against}"
    titles = ("run", "commit", "time", "change", "", "verdict", "against reference", "roof", "rate", "memory", "subject")
    table = aligned([titles, *(_run_row(point) for point in shown)], "<<>>><>>>><", indent="  ")
    lines = [log_line(head), f"  {trend(series.points[-TREND_RUNS:])}", table[0]]
    for point, line in zip(shown, table[1:], strict=True):
        lines += [log_line(f"  {_BREAK} {point.seam}", 600)] if point.seam else []
        lines.append(line)
    muted = shown[-1].case.muted
    return [*lines, *([log_line(f"  Muted: {muted}", 600)] if muted else [])]


def problem_lines(problems: Sequence[str], ended: Sequence[str] = ()) -> list[str]:
    """Return one line about the files that cannot be read, and one for each mute that has ended."""
    what = f"{units.plural(len(problems), 'file')} of the history cannot be read, and the other runs are shown."
    unread = [f"{what} {units.first_of(problems)}"] if problems else []
    return [log_line(f"Warning: {sentence}", 600) for sentence in (*unread, *ended)]


def trend(points: Sequence[Point]) -> str:
    """Return a bar for each run, higher for slower; a space where nothing was measured. Each segment has a scale of its own.

    Shows the index, or the times where no run measured an anchor.
    """
    has_index = any(point.index for point in points)
    drawn = []
    for _, group in itertools.groupby(points, key=lambda point: point.segment):
        values = [point.index if has_index else point.case.median_ms for point in group]
        known = [value for value in values if value is not None]
        least = min(known, default=1.0)
        spread = max(max(known, default=1.0) - least, LEAST_SPREAD * least)
        steps = [None if value is None else round((value - least) / spread * (len(BARS) - 1)) for value in values]
        drawn.append("".join(" " if step is None else BARS[step] for step in steps))
    return _BREAK.join(drawn)


def _row(series: Series) -> tuple[str, ...]:
    latest = series.points[-1]
    muted = f"muted: {latest.case.muted}" if latest.case.muted else ""
    return (
        clean(series.case, CELL),
        str(series.runs),
        f"{latest.started_at:%Y-%m-%d}",
        _time(latest),
        *_change(latest),
        _roof(latest),
        trend(series.points[-TREND_RUNS:]),
        clean(muted, CELL),
    )


def _run_row(point: Point) -> tuple[str, ...]:
    case = point.case
    return (
        f"{point.started_at:%Y-%m-%d %H:%M}",
        point.commit[:10],
        _time(point),
        *_change(point),
        WORDS[case.outcome].text,
        units.change(case.reference.ratio) if case.reference else "",
        _roof(point),
        _rate(case),
        units.size(case.peak_memory_bytes) if case.peak_memory_bytes else "",
        clean(point.subject, 60),
    )


def _time(point: Point) -> str:
    return units.duration(point.case.median_ms / 1e3) if point.case.median_ms else NOTHING


def _change(point: Point) -> tuple[str, str]:
    """Return the change since the anchor, and its interval."""
    if point.index is None or point.low is None or point.high is None:
        return NOTHING, ""
    return units.estimate(point.index, point.low, point.high)


def _roof(point: Point) -> str:
    return units.percent(point.case.share_of_roof) if point.case.share_of_roof is not None else ""


def _rate(case: HistoryCase) -> str:
    """Return the throughput that limits the case: arithmetic below the matmul's roof, else memory."""
    if case.gflops and (case.roof == "matmul" or not case.gb_s):
        return units.rate(case.gflops * 1e9, "FLOP/s")
    return units.rate(case.gb_s * 1e9, "B/s") if case.gb_s else ""
