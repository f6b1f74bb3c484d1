"""How a search got there: every evaluation, the best so far, and where something failed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.judge.tuning import Ranked, best_so_far, compares_with_default, ranked
from ratchet.records.tuning import TuningRecord
from ratchet.report.figures import canvas
from ratchet.report.figures.canvas import FAINT, HEAD, INK, PALETTE, PAPER, REFERENCE, RULE, WIDTH, line, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 460
_LEFT, _TOP, _WIDE, _HIGH = 76, 104, WIDTH - 76 - 150, 270
SIZE = 10.5
_FAILED = PALETTE[1]
_FAR = 3.0
"""Costs beyond so many times the default's (or the best) are drawn at the upper edge."""
_TICKS = (1.0, 0.5, 2.0, 3.0, 1.5, 0.75, 0.8, 0.9, 0.7, 0.6, 1.25, 0.2, 0.1, 0.05, 0.02, 0.01, 1.1, 0.95, 1.05)
"""The more important ones first: of two that are too near each other the first is shown."""
_APART = 18.0
"""Pixels between ticks, at least."""
_MANY = 150
"""Evaluations from which on the marks are smaller."""


def draw_convergence(record: TuningRecord, folder: Path, name: str) -> list[Path]:
    """``NAME.png`` and ``NAME.svg``. Raises PageError where matplotlib is missing, OutputError where they cannot be written."""
    with canvas.drawing():
        return canvas.write_files(convergence_figure(record), folder, name)


def convergence_figure(record: TuningRecord) -> Figure:
    """Number of the evaluation across, cost upwards on a logarithmic axis; failures stand below it. Within `drawing`."""
    figure = canvas.new_figure(HEIGHT)
    axes = canvas.axes_at(figure, _LEFT, _TOP, _WIDE, _HIGH)
    timed, best = ranked(record), best_so_far(record)
    _axes(axes, record, timed)
    _dots(axes, timed)
    _failures(figure, axes, record)
    _steps(figure, axes, best)
    _words(figure, record, timed)
    return figure


def _axes(axes: Axes, record: TuningRecord, timed: tuple[Ranked, ...]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter, NullLocator

    costs = [min(each.cost, _FAR) for each in timed]
    low, high = min(*costs, 1.0, 0.99) / 1.05, max(*costs, 1.0, 1.01) * 1.05
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_xlim(0, len(record.evaluations) + 1)
    shown = _ticks(low, high)
    axes.yaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_major_formatter(FixedFormatter([f"{each:g}×" for each in shown]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, steps=[1, 2, 5, 10]))
    axes.tick_params(axis="x", pad=20)  # the failures stand between the axis and its numbers
    axes.grid(visible=True, axis="y", color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.axhline(1.0, color=REFERENCE, linewidth=1.2, linestyle=(0, (6, 2)), zorder=1.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _ticks(low: float, high: float) -> list[float]:
    """Those within the axis that stand apart from each other."""
    shown: list[float] = []
    for each in _TICKS:
        apart = all(abs(math.log(each / other)) / math.log(high / low) * _HIGH >= _APART for other in shown)
        if low <= each <= high and apart:
            shown.append(each)
    return sorted(shown)


def _dots(axes: Axes, timed: tuple[Ranked, ...]) -> None:
    """Hollow: dropped after a few samples. An arrowhead: beyond the upper edge."""
    size = 5.0 if len(timed) < _MANY else 3.5
    for outcome, face in (("correct", REFERENCE), ("dropped", PAPER)):
        for shape, far in (("o", False), ("^", True)):
            shown = [each for each in timed if each.evaluation.outcome == outcome and (each.cost > _FAR) == far]
            axes.plot(
                [each.number for each in shown], [min(each.cost, _FAR) for each in shown], marker=shape, markersize=size,
                linestyle="none", markerfacecolor=face, markeredgecolor=REFERENCE, markeredgewidth=1.1, zorder=2, clip_on=False,
            )  # fmt: skip


def _steps(figure: Figure, axes: Axes, best: list[float | None]) -> None:
    """The best so far, and in words where it ends."""
    known = [(number, value) for number, value in enumerate(best, 1) if value is not None]
    if not known:
        return
    numbers, values = zip(*((number, min(value, _FAR)) for number, value in known), strict=True)
    axes.step(numbers, values, where="post", color=HEAD, linewidth=2.0, zorder=3)
    number, value = known[-1]
    value = min(value, _FAR)
    axes.plot([number], [value], marker="o", markersize=6, color=HEAD, zorder=4, clip_on=False)
    _, height = axes.transData.transform((number, value))
    write(
        figure,
        (_LEFT + _WIDE + 12, height),
        f"best {known[-1][1]:.3f}×",
        size=SIZE,
        color=HEAD,
        weight="bold",
        va="center_baseline",
    )
    _, unity = axes.transData.transform((number, 1.0))
    if abs(unity - height) > 16:
        write(figure, (_LEFT + _WIDE + 12, unity), "default", size=SIZE, color=FAINT, va="center_baseline")


def _failures(figure: Figure, axes: Axes, record: TuningRecord) -> None:
    bottom, size = HEIGHT - _TOP - _HIGH - 12, 6.0 if len(record.evaluations) < _MANY else 4.0
    for number, each in enumerate(record.evaluations, 1):
        if not each.timed:
            across = float(axes.transData.transform((number, 1.0))[0])
            line(figure, (across, bottom), marker="x", markersize=size, color=_FAILED, markeredgewidth=1.4, linestyle="none")


def _words(figure: Figure, record: TuningRecord, timed: tuple[Ranked, ...]) -> None:
    title = canvas.elided(f"Search · {record.case}", 17, WIDTH - 48, weight="bold")
    write(figure, (24, HEIGHT - 36), title, size=17, weight="bold", va="baseline")
    basis = "the default's" if compares_with_default(record) else "the fastest one's"
    write(figure, (24, HEIGHT - 60), f"Time of each configuration over {basis}.", size=SIZE, color=FAINT, va="baseline")
    _key(figure, record, timed)
    write(figure, (_LEFT + _WIDE / 2, 22), "evaluation", size=SIZE, color=FAINT, ha="center", va="baseline")
    device = record.environment.fingerprint.gpu or record.environment.fingerprint.cpu
    write(figure, (WIDTH - 24, 22), canvas.elided(device, SIZE, 400), size=SIZE, color=FAINT, ha="right", va="baseline")


def _key(figure: Figure, record: TuningRecord, timed: tuple[Ranked, ...]) -> None:
    dropped = sum(each.evaluation.outcome == "dropped" for each in timed)
    failed = len(record.evaluations) - len(timed)
    dot = {"marker": "o", "markersize": 5, "markeredgecolor": REFERENCE, "markeredgewidth": 1.1, "linestyle": "none"}
    cross = {"marker": "x", "markersize": 6, "color": _FAILED, "markeredgewidth": 1.4, "linestyle": "none"}
    x = 30.0
    for count, words, style in (
        (len(timed) - dropped, "timed", dot | {"markerfacecolor": REFERENCE}),
        (dropped, "dropped after a few samples", dot | {"markerfacecolor": PAPER}),
        (sum(each.cost > _FAR for each in timed), f"of these past {_FAR:g}×", dot | {"marker": "^", "markerfacecolor": PAPER}),
        (failed, "failed", cross),
    ):
        if count:
            text = f"{count} {words}"
            line(figure, (x, HEIGHT - 80), **style)
            write(figure, (x + 10, HEIGHT - 80), text, size=SIZE, color=INK, va="center_baseline")
            x += 40 + math.ceil(canvas.width_of(text, SIZE))
