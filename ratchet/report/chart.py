"""Changes of cases → bars of text that grow to both sides of none.

Not mermaid: its bar charts grow from the end of the axis, so that −12 % is the shortest bar beside +5 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.records import CaseVerdict
from ratchet.report import escape, words
from ratchet.report.escape import Markdown
from ratchet.report.pieces import is_plain

MOST_BARS = 20
LONGEST_LABEL = 32
HALVES = 48
"""Half characters of the longest bar."""


def chart_of_changes(cases: Sequence[CaseVerdict]) -> Markdown | None:
    """The first cases that were compared, a line each: name, change, and a bar to the right where it is slower.

    None where fewer than two were: a chart of one bar says less than its number.
    """
    shown = [(case, case.comparison) for case in cases if case.comparison][:MOST_BARS]
    if len(shown) < 2:
        return None
    changes = [found.ratio - 1 for _, found in shown]
    most = max(map(abs, changes)) or 1.0
    labels = [_label(case.name, place) for place, (case, _) in enumerate(shown, 1)]
    texts = [words.change(found) for _, found in shown]
    wide, wider = max(map(len, labels)), max(map(len, texts))
    left = (max(_halves(-change, most) for change in changes) + 1) // 2
    lines = [
        f"{label:<{wide}}  {text:>{wider}}  {_bar(change, most, left)}".rstrip()
        for label, text, change in zip(labels, texts, changes, strict=True)
    ]
    return escape.fenced(lines)


def _bar(change: float, most: float, left: int) -> str:
    faster, slower = _halves(-change, most), _halves(change, most)
    to_left = f"{'▐' * (faster % 2)}{'█' * (faster // 2)}"
    return f"{to_left:>{left}}│{'█' * (slower // 2)}{'▌' * (slower % 2)}"


def _halves(change: float, most: float) -> int:
    return max(0, round(HALVES * change / most))


def _label(name: str, place: int) -> str:
    """The end of a name says most: its config."""
    if not is_plain(name):
        return f"case {place}"
    return name if len(name) <= LONGEST_LABEL else f"…{name[1 - LONGEST_LABEL :]}"
