"""Show a `ReportRecord` in a terminal: a table that fits its width, or plain lines for a log.

Text from code under test is cleaned and only ever becomes rich's `Text`, never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ratchet import tools
from ratchet.core import units, untrusted
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.core.report import words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_QUIET = (Outcome.UNCHANGED, Outcome.IDENTICAL, Outcome.MEASURED)
"""Outcomes that need no line beside their row of the table."""
_LAST_LINES = 8
"""Last lines of a failed case's output that are shown."""
_ROOF = "Roof"
_GAP = 2
"""Characters between two columns."""
_EXTRA = 5
"""Columns of this rank and above are dropped before a change loses its interval."""


@dataclass(frozen=True)
class _Column:
    title: str
    cells: Sequence[str]
    """One a case."""
    rank: int
    """Where the terminal is too narrow, the highest rank is dropped first; 0 stays."""
    justify: Literal["left", "right"] = "right"


_FORMS = (("Reference", True), ("Ref.", True), ("Ref.", False))
"""Title of the reference's times, and whether a change has its interval. From wide to narrow; the first that fits is used."""
_PLAIN_ALIGNED = "<<>^>>>><"
"""Alignment of the columns of a plain line: outcome, case, reference, arrow, head, change, interval, MDE, note."""


def print_report(report: ReportRecord, console: Console) -> None:
    """Print the table, a line for each case that needs one, and last the headline; narrow consoles get fewer columns."""
    from rich.padding import Padding
    from rich.text import Text

    listed = words.worst_first(report)
    columns = _fitting(report, listed, console.width)
    console.print(_table(report, listed, columns, console.width))
    if any(column.title == _ROOF for column in columns):
        for note in words.roof_notes(listed):
            console.print(Text(note, style="dim"))
    console.print()
    for case in listed:
        outcome = words.outcome_before_acceptance(case, report)
        if outcome not in _QUIET:
            line = Text.assemble(
                (untrusted.clean(case.name, untrusted.CELL), "bold"),
                f" {words.WORDS[outcome].text}: {untrusted.clean(words.reason(case))}",
            )
            console.print(line)
        if case.host_bound:
            name = untrusted.clean(case.name, untrusted.CELL)
            console.print(Text.assemble((name, "bold"), f" {words.HOST_BOUND.text}: {untrusted.clean(case.host_bound)}"))
        for last in case.last_lines[-_LAST_LINES:]:
            console.print(Padding(Text(untrusted.output_line(last), style="dim"), (0, 0, 0, 4), expand=False))
    for sentence in (*_why(report), *_notes(listed)):
        console.print(Text(sentence))
    for warning in report.warnings:
        console.print(Text.assemble(("warning: ", "yellow"), untrusted.clean(warning)))
    console.print()
    style = {"✅": "bold green", "❌": "bold red", "🟠": "bold yellow", "⚠️": "bold yellow"}.get(words.mark(report), "bold")
    console.print(Text(untrusted.clean(tools.part("profile_text").headline(report)), style=style))


def plain_lines(report: ReportRecord) -> list[str]:
    """Return one aligned line a case, then reasons, the last lines of failures, warnings, and last the headline; no colours.

    Every line begins with a word or mark of ours, so that no runner takes it for a ``::command::``.
    """
    listed = words.worst_first(report)
    lines = words.aligned([_plain_row(case, report) for case in listed], _PLAIN_ALIGNED)
    for case in listed:
        name = untrusted.log_line(case.name, untrusted.CELL)
        outcome = words.outcome_before_acceptance(case, report)
        if outcome not in _QUIET:
            lines.append(f"{outcome} {name}: {untrusted.log_line(words.reason(case))}")
        lines += [f"{words.HOST_BOUND.text} {name}: {untrusted.log_line(case.host_bound)}"] if case.host_bound else []
        lines += [f"  | {name}: {untrusted.output_line(last)}" for last in case.last_lines[-_LAST_LINES:]]
    lines += [*_why(report), *_notes(listed)]
    lines += [f"warning: {untrusted.log_line(warning)}" for warning in report.warnings]
    return [*lines, untrusted.log_line(tools.part("profile_text").headline(report))]


def _why(report: ReportRecord) -> list[str]:
    """Return a line where the sides shared benchmarks, one for each profile, and one for the changed cases that have none."""
    shared = [f"Measured with the {words.BENCH_FROM_HEAD}."] if report.bench_from else []
    lines = [*shared, *(line for profile in report.profiles for line in tools.part("profile_text").why_lines(profile))]
    if report.unprofiled:
        more = units.plural(len(report.unprofiled), "more changed case")
        lines.append(f"Not profiled: {more}; run `ratchet profile CASE` for each.")
    return lines


def _notes(listed: list[CaseVerdict]) -> list[str]:
    """Return one line for each sentence about results without a reference or more memory, with its first cases; and of a star."""
    starred = any(case.comparison and not case.comparison.is_paired for case in listed)
    lines = ["* against a time that was not measured beside it."] if starred else []
    sentences = words.by_sentence(listed, lambda case: case.unchecked) | words.by_sentence(listed, lambda case: case.memory)
    for sentence, names in sentences.items():
        shown = units.listed(names, show=lambda name: untrusted.log_line(name, untrusted.CELL))
        lines.append(f"Note on {shown}: {untrusted.log_line(sentence)}")
    return lines


def _plain_row(case: CaseVerdict, report: ReportRecord) -> tuple[str, ...]:
    reference, head = (words.time(side) if side else "" for side in (case.reference, case.head))
    times = reference, "->" if reference and head else "", head
    moved = words.change(case.comparison) if case.comparison else ""
    detectable = f"MDE {words.detectable(case.comparison)}" if case.comparison else ""
    note = words.NO_SLOWDOWN.text if words.word(case) is words.NO_SLOWDOWN else ""
    outcome, name = words.outcome_before_acceptance(case, report), untrusted.log_line(case.name, untrusted.CELL)
    return outcome, name, *times, moved, words.interval(case.comparison), detectable, note


def _table(report: ReportRecord, listed: list[CaseVerdict], columns: list[_Column], width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    room = max(8, width - sum(_wide(column) + _GAP for column in columns[1:]))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))  # and 1 for the box
    for column in columns:
        table.add_column(column.title, justify=column.justify, no_wrap=True, overflow="ellipsis")
    for case, row in zip(listed, zip(*(column.cells for column in columns), strict=True), strict=True):
        outcome = words.outcome_before_acceptance(case, report)
        style = {"Outcome": words.WORDS[outcome].style, "Case": "" if outcome in _QUIET else "bold"}
        cells = (_middle(row[0], room), *row[1:])
        table.add_row(*(Text(cell, style=style.get(column.title, "")) for cell, column in zip(cells, columns, strict=True)))
    return table


def _columns(report: ReportRecord, listed: list[CaseVerdict], reference: str, with_interval: bool) -> list[_Column]:
    case = _Column("Case", [untrusted.clean(case.name, untrusted.CELL) for case in listed], 0, "left")
    head = [words.time(case.head) for case in listed]
    roof = _Column(_ROOF, [words.roof(case.head) for case in listed], _EXTRA + 2)
    outcome = _Column("Outcome", [_outcome(case, report) for case in listed], 0, "left")
    if not words.compares(report):
        return [case, _Column("Time", head, 2), roof, outcome]
    return [
        case,
        _Column(reference, [words.time(case.reference) for case in listed], 4),
        _Column("Head", head, 3),
        _Column("Change", [_change(case, with_interval) for case in listed], 2),
        _Column("Cliff’s δ", [words.delta(case.comparison) for case in listed], _EXTRA + 1),
        _Column("MDE", [words.detectable(case.comparison) for case in listed], _EXTRA),
        roof,
        outcome,
    ]


def _fitting(report: ReportRecord, listed: list[CaseVerdict], width: int) -> list[_Column]:
    """Return the columns that fit: extra ones go first, then the interval, the times; names and outcomes stay."""
    kept: list[_Column] = []
    for reference, with_interval in _FORMS:
        kept = _without(_columns(report, listed, reference, with_interval), _EXTRA, width)
        if _total(kept) <= width:
            return kept
    return _without(kept, 1, width)


def _without(columns: list[_Column], least: int, width: int) -> list[_Column]:
    kept = columns
    while _total(kept) > width and (last := max(kept, key=lambda column: column.rank)).rank >= least:
        kept = [column for column in kept if column is not last]
    return kept


def _total(columns: list[_Column]) -> int:
    return sum(_wide(column) + _GAP for column in columns) - _GAP


def _wide(column: _Column) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, (column.title, *column.cells)))


def _change(case: CaseVerdict, with_interval: bool) -> str:
    change = words.change(case.comparison)
    return f"{change} {words.interval(case.comparison)}".rstrip() if with_interval else change


def _middle(name: str, room: int) -> str:
    """Shorten a name in its middle, so that both ends stay: the benchmark and the config."""
    from rich.cells import cell_len

    if cell_len(name) <= room:
        return name
    left = (room - 1) // 2
    return f"{name[:left]}…{name[-(room - 1 - left) :]}"


def _outcome(case: CaseVerdict, report: ReportRecord) -> str:
    outcome = words.outcome_before_acceptance(case, report)
    return (words.word(case) if outcome is case.outcome else words.WORDS[outcome]).text
