"""A picture of a search: every evaluation, the best time so far, and where something failed.

`ratchet.commands.tune.tune` calls `draw_convergence`, which writes one PNG and one SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.judge.tuning import best_so_far, compares_with_default, ranked
from ratchet.records.tuning import TuningRecord
from ratchet.report.figures import style
from ratchet.report.figures.style import (
    FAINT,
    GREY,
    HEAD,
    REFERENCE,
    TITLE,
    FigureSection,
    legend_section,
    lines_of,
    text_section,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_FAILED = style.PALETTE[1]
_FAR = 3.0
"""Costs beyond this many times the default's (or the fastest one's) are drawn at the upper edge."""
_MANY = 150
"""Evaluations from which on the marks are smaller."""


def draw_convergence(record: TuningRecord, folder: Path, name: str) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``. Raises PageError where matplotlib is missing, OutputError for an unwritable folder."""
    with style.drawing():
        return style.write_files(convergence_figure(record), folder, name)


def convergence_figure(record: TuningRecord) -> Figure:
    """Draw evaluations from left to right, their costs upwards on a logarithmic axis; within `style.drawing`."""
    basis = "the default's" if compares_with_default(record) else "the fastest one's"
    device = record.environment.fingerprint.gpu or record.environment.fingerprint.cpu
    lines = lines_of(f"Search · {record.case}", TITLE, most=2)
    lines += lines_of(f"Time of each configuration over {basis}, on {device}", FAINT)
    costs = [min(evaluation.cost, _FAR) for evaluation in ranked(record)]
    low, high = min([*costs, 0.99]) / 1.08, max([*costs, 1.01]) * 1.05
    marks = _marks(record, low, high)
    chart = FigureSection(2.8, lambda part: _draw(part.subplots(), len(record.evaluations), low, high, marks))
    return style.stacked([text_section(lines), chart, *([legend_section(marks)] if marks else [])])


def _marks(record: TuningRecord, low: float, high: float) -> list[Line2D]:
    """Return everything in the chart; each label has the count or the value."""
    from matplotlib.lines import Line2D

    timed, size = ranked(record), 4.5 if len(record.evaluations) < _MANY else 3.0
    dot = {"marker": "o", "markersize": size, "markeredgecolor": REFERENCE, "linestyle": "none", "clip_on": False, "zorder": 2}
    marks = []

    def mark(numbers: Sequence[int], costs: Sequence[float], label: str, **look: Any) -> None:
        if numbers:
            marks.append(Line2D(numbers, [min(cost, _FAR) for cost in costs], label=label, **look))

    best = [(number, cost) for number, cost in enumerate(best_so_far(record), 1) if cost is not None]
    mark(
        [number for number, _ in best], [cost for _, cost in best], f"best so far: {best[-1][1]:.3f}×" if best else "",
        color=HEAD, linewidth=1.8, drawstyle="steps-post", marker="o", markersize=5, markevery=[-1], zorder=3,
    )  # fmt: skip
    if compares_with_default(record):
        mark([0, len(record.evaluations) + 1], [1.0, 1.0], "default", color=GREY, linewidth=1.1, linestyle=(0, (6, 2)), zorder=1)
    for outcome, words, face in (("correct", "timed", REFERENCE), ("dropped", "dropped after a few samples", style.PAPER)):
        near = [entry for entry in timed if entry.evaluation.outcome == outcome and entry.cost <= _FAR]
        mark(
            [entry.number for entry in near], [entry.cost for entry in near], f"{len(near)} {words}", markerfacecolor=face, **dot
        )
    far = [entry for entry in timed if entry.cost > _FAR]
    look = dot | {"marker": "^", "markerfacecolor": style.PAPER}
    mark([entry.number for entry in far], [_FAR] * len(far), f"{len(far)} past {_FAR:g}×, timed or dropped", **look)
    failed = [number for number, evaluation in enumerate(record.evaluations, 1) if not evaluation.timed]
    look = dot | {"marker": "x", "markersize": size + 1, "markeredgecolor": _FAILED, "markeredgewidth": 1.4}
    mark(failed, [low * (high / low) ** 0.04] * len(failed), f"{len(failed)} failed", **look)
    return marks


def _draw(axes: Axes, evaluations: int, low: float, high: float, marks: Sequence[Line2D]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axes.set(yscale="log", ylim=(low, high), xlim=(0, evaluations + 1), xlabel="evaluation")
    axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]) if high / low < 10 else LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}×"))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    axes.grid(visible=True, axis="y", linewidth=0.6)
    for mark in marks:
        axes.add_line(mark)
