"""Panels of a page: pairs of bars, and a table of facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ratchet.report.figures.canvas import FAINT, HEAD, INK, REFERENCE, RULE, elided, share, width_of, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE, SIZE, SMALL = 12.0, 10.5, 9.5
"""Points."""
ROW, FACT = 38, 22
"""Pixels that a pair of bars and a line of facts take."""
_BAR = 12
TOP = 34
"""Pixels that a title takes."""


@dataclass(frozen=True)
class Panel:
    """A place on the page, in pixels from its top left corner."""

    left: float
    top: float
    width: float
    height: float
    """Of the whole page, from whose bottom matplotlib counts."""

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels right of and below the panel's corner → pixels from the bottom left corner of the page."""
        return self.left + x, self.height - self.top - y


@dataclass(frozen=True)
class Bar:
    """One quantity of both sides. None: not known of that side."""

    label: str
    reference: float | None
    head: float | None
    unit: str = "%"
    absent: tuple[str, str] = ("not in the report", "not in the report")
    """What to say of a side that has no figure: reference, head."""


@dataclass(frozen=True)
class Fact:
    """One line of a table: what, and the text of both sides."""

    label: str
    reference: str
    head: str


def title(figure: Figure, panel: Panel, text: str, under: str = "") -> None:
    """The heading of a panel, with fainter words behind it."""
    write(figure, panel.at(0, 14), text, size=TITLE, weight="bold", color=INK, va="baseline")
    after = width_of(text, TITLE, "bold") + 10
    words = elided(under, SMALL, panel.width - after, at_end=True)
    write(figure, panel.at(after, 14), words, size=SMALL, color=FAINT, va="baseline")


def draw_bars(
    figure: Figure, panel: Panel, bars: Sequence[Bar], sides: Sequence[str], most: float | None = None, label: float = 190.0
) -> None:
    """Pairs of bars, reference above head, each with its figure and ``label`` pixels of words before it.

    ``most`` is the full width, else the largest value.
    """
    value = 92.0
    room = panel.width - label - value
    known = [each for bar in bars for each in (bar.reference, bar.head) if each is not None]
    full = max(most or 0.0, max(known, default=0.0)) or 1.0
    for number, bar in enumerate(bars):
        y = TOP + number * ROW
        middle = y + (_BAR + 1.5 if len(sides) == 2 else _BAR / 2)
        words = elided(bar.label, SIZE, label - 10)
        write(figure, panel.at(0, middle), words, size=SIZE, color=INK, va="center_baseline")
        for place, side in enumerate(sides):
            _bar(figure, panel, (label, y + (_BAR + 3) * place), room, bar, side, full)


def draw_facts(figure: Figure, panel: Panel, facts: Sequence[Fact], sides: Sequence[str], below: float = TOP) -> None:
    """A small table; what differs between the sides is bold."""
    label = panel.width * (0.44 if len(sides) == 2 else 0.5)
    column = (panel.width - label) / len(sides)
    for number, fact in enumerate(facts):
        y = below + number * FACT + 8
        differs = len(sides) == 2 and fact.reference != fact.head
        words = elided(fact.label, SIZE, label - 10)
        write(figure, panel.at(0, y), words, size=SIZE, color=INK, va="center_baseline")
        for place, side in enumerate(sides):
            weight = "bold" if differs and side == "head" else "normal"
            shown = elided(getattr(fact, side), SIZE, column - 8, weight=weight)
            colour = REFERENCE_INK if side == "reference" else HEAD
            write(
                figure, panel.at(label + place * column, y), shown, size=SIZE, color=colour, weight=weight, va="center_baseline"
            )


REFERENCE_INK = "#4d5863"
"""The grey of the reference, dark enough for text."""


def _bar(figure: Figure, panel: Panel, start: tuple[float, float], room: float, bar: Bar, side: str, full: float) -> None:
    value = bar.reference if side == "reference" else bar.head
    x, y = start
    rectangle(figure, panel.at(x, y + _BAR), room, _BAR, "#f2f2f2")
    if value is None:
        words = bar.absent[side == "head"]
        write(figure, panel.at(x + 4, y + _BAR / 2), words, size=8.5, color=FAINT, va="center_baseline")
        return
    long = room * min(1.0, value / full)
    rectangle(figure, panel.at(x, y + _BAR), long, _BAR, REFERENCE if side == "reference" else HEAD)
    text = f"{_figure(value)} {bar.unit}"
    colour = REFERENCE_INK if side == "reference" else HEAD
    write(figure, panel.at(x + long + 6, y + _BAR / 2), text, size=SMALL, color=colour, va="center_baseline")


def _figure(value: float) -> str:
    """Three digits: 0.45, 41.3, 1204; nothing finer than a hundredth."""
    if 0 < value < 0.01:
        return "<0.01"
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def rectangle(figure: Figure, corner: tuple[float, float], width: float, height: float, colour: str) -> None:
    """A filled rectangle; ``corner`` is its lower left one, in pixels from the bottom left corner of the page."""
    from matplotlib.patches import Rectangle

    wide, high = share(figure, (width, height))
    figure.add_artist(
        Rectangle(share(figure, corner), wide, high, facecolor=colour, edgecolor="none", transform=figure.transFigure)
    )


def rule(figure: Figure, panel: Panel, y: float) -> None:
    """A thin line across a panel."""
    rectangle(figure, panel.at(0, y), panel.width, 1, RULE)
