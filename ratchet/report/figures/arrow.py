"""The roofline of a page: small, both sides of one case, an arrow from reference to head."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ratchet import units
from ratchet.records.roofline import Roof, Roofline, RooflinePoint
from ratchet.report.figures.axes import Drawn, charted, draw_axes, limits_of, place_of
from ratchet.report.figures.bars import REFERENCE_INK, SIZE, SMALL, Panel, title
from ratchet.report.figures.canvas import DPI, FAINT, HEAD, PAPER, REFERENCE, axes_at, elided, width_of, write
from ratchet.report.figures.labels import place
from ratchet.report.roofline import BOUND, share_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT, _BELOW = 56, 44


def draw_arrow(figure: Figure, panel: Panel, roofline: Roofline | None, high: float) -> None:
    """The roofline in a panel ``high`` pixels high; words where there is nothing to draw."""
    points = charted(roofline.points) if roofline else []
    if roofline is None or not points:
        title(figure, panel, "Roofline")
        words = _bandwidth(roofline) if roofline and roofline.points else "no counters of FLOPs and DRAM bytes"
        write(figure, panel.at(0, 46), elided(words, SIZE, panel.width), size=SIZE, color=FAINT, va="baseline")
        return
    title(figure, panel, "Roofline", _read_as(points[-1]))
    axes = axes_at(figure, panel.left + _LEFT, panel.top + 30, panel.width - _LEFT, high - 30 - _BELOW)
    brief = roofline.model_copy(update={"roofs": needed_roofs(roofline)})
    drawn = draw_axes(axes, brief, limits_of(brief), within=True)
    axes.tick_params(labelsize=9)
    words = "FLOP per byte of device memory (upwards: FLOP/s)"
    write(figure, panel.at(_LEFT, high - 6), words, size=SMALL, color=FAINT, va="baseline")
    for point in points:
        _marker(axes, point)
    if len(points) == 2:
        _arrow(axes, points[0], points[1])
    _names(figure, axes, points, drawn)


def needed_roofs(roofline: Roofline) -> tuple[Roof, ...]:
    """What the points are read against: measured, and of the datasheet or else the report. There is no room for more."""
    needed = {point.precision for point in roofline.points}
    near = [roof for roof in roofline.roofs if roof.kind == "dram" or roof.precision in needed]
    printed = {(roof.kind, roof.precision) for roof in near if roof.source == "datasheet"}
    return tuple(roof for roof in near if roof.source != "report" or (roof.kind, roof.precision) not in printed)


def _marker(axes: Axes, point: RooflinePoint) -> None:
    colour = REFERENCE if point.side == "reference" else HEAD
    axes.plot(
        [point.intensity or 1.0], [point.flops_per_s], marker="o", markersize=8, markeredgecolor=colour, linestyle="none",
        markerfacecolor=colour if point.source == "counters" else PAPER, markeredgewidth=1.8, zorder=5,
    )  # fmt: skip


def _arrow(axes: Axes, start: RooflinePoint, end: RooflinePoint) -> None:
    """From one marker to the other; where they nearly coincide there is nothing to point at."""
    if math.dist(place_of(axes, start), place_of(axes, end)) < 14:
        return
    tip, tail = ((each.intensity or 1.0, each.flops_per_s) for each in (end, start))
    look = {"arrowstyle": "-|>", "color": HEAD, "linewidth": 1.6, "shrinkA": 5, "shrinkB": 5, "mutation_scale": 13}
    axes.annotate("", xy=tip, xytext=tail, arrowprops=look, zorder=4)


def _names(figure: Figure, axes: Axes, points: list[RooflinePoint], drawn: Drawn) -> None:
    texts = [f"{point.side or 'case'} {_share(point)}".rstrip() for point in points]
    sizes = [(width_of(text, SIZE) + 3, SIZE * DPI / 72 * 1.2) for text in texts]
    left, bottom, right, top = axes.get_window_extent().extents
    at = [place_of(axes, point) for point in points]
    spots = place(at, sizes, (left + 2, bottom + 2, right - 2, top - 2), drawn.taken, drawn.lines)
    for text, spot, point in zip(texts, spots, points, strict=True):
        colour = REFERENCE_INK if point.side == "reference" else HEAD
        start = (spot.box[0] + 1, (spot.box[1] + spot.box[3]) / 2)
        write(figure, start, text, size=SIZE, color=colour, va="center_baseline", zorder=6)


def _share(point: RooflinePoint) -> str:
    return share_text(point.shares[point.bound_roof]) if point.bound_roof else ""


def _read_as(point: RooflinePoint) -> str:
    bound = f"bound by {BOUND[point.bound]}" if point.bound and point.bound != "neither" else ""
    far = "below half of every roof" if point.bound == "neither" else ""
    timed = "time of the benchmark" if point.timed_by == "benchmark" else "time under the profiler"
    return ", ".join(each for each in (f"{bound}{far}", timed) if each)


def _bandwidth(roofline: Roofline) -> str:
    """Of cases without FLOPs: what the axes cannot show."""
    told = [
        f"{point.side or 'case'} {units.rate(point.bytes_per_s, 'B/s')} {_share(point)}".rstrip() for point in roofline.points
    ]
    return f"no FLOPs counted; device memory: {', '.join(told)}"
