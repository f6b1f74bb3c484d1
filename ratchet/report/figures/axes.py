"""The axes of a roofline: limits, ticks, slopes and ceilings with their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ratchet.records.roofline import Roof, Roofline, RooflinePoint
from ratchet.report.figures.canvas import DPI, FAINT, INK, PAPER, RULE, figure_of, line, width_of, write
from ratchet.report.figures.labels import Box, Point, along, overlap, spread
from ratchet.report.roofline import ceiling_text, slope_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = {"measured": "solid", "report": (0, (6, 2)), "datasheet": (0, (2, 2))}
_NEAR = 1.03
"""Roofs that differ by less are one line with both labels: on a chart of many decades they coincide."""
SIZE = 9.5
"""Of the words beside a roof, in points."""
PALE = "#a6a6a6"
CLEAR = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
"""Behind words that cross a line."""
GAP = 8.0
"""Pixels between a ceiling and its label."""


@dataclass(frozen=True)
class Limits:
    """What the axes show: FLOP per byte from ``left`` to ``right``, FLOP per second from ``low`` to ``high``."""

    left: float
    right: float
    low: float
    high: float


@dataclass
class Drawn:
    """What is on the axes already, in pixels: boxes that no label may cover, and lines that it had better not."""

    taken: list[Box] = field(default_factory=list)
    lines: list[Box] = field(default_factory=list)


def charted(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """Those with FLOPs and bytes; the others have no place on logarithmic axes."""
    return [each for each in points if each.intensity]


def grouped(roofs: Sequence[Roof]) -> list[tuple[Roof, ...]]:
    """Roofs that fall on one line, the highest line first."""
    groups: list[list[Roof]] = []
    for roof in sorted(roofs, key=lambda each: (-each.rate, each.key)):
        if groups and groups[-1][0].rate / roof.rate < _NEAR:
            groups[-1].append(roof)
        else:
            groups.append([roof])
    return [tuple(group) for group in groups]


def limits_of(roofline: Roofline) -> Limits:
    """Room around the points, up to the highest roof and past the corner where the slopes end."""
    shown = charted(roofline.points)
    intensities = [each.intensity or 1.0 for each in shown] or [1.0]
    rates = [each.flops_per_s for each in shown]
    slopes = [roof.rate for roof in roofline.roofs if roof.kind == "dram"]
    tops = [roof.rate for roof in roofline.roofs if roof.kind == "compute"]
    corner = max(tops) / min(slopes) if tops and slopes else max(intensities)
    left, right = min(min(intensities) / 5, corner / 30), max(max(intensities) * 9, corner * 3)
    top = max([*(tops or [slope * right / 3 for slope in slopes]), *rates], default=1e12)
    low = min([*(rate / 4 for rate in rates), *(slope * left for slope in slopes)], default=top / 1e3)
    return Limits(left, right, low, top * 2.5)


def draw_axes(axes: Axes, roofline: Roofline, shown: Limits, *, within: bool = False) -> Drawn:
    """Ticks, slopes with words along them, ceilings with words to their right, or ``within`` the axes."""
    drawn = Drawn()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(shown.left, shown.right)
    axes.set_ylim(shown.low, shown.high)
    _ticks(axes, shown)
    needed = {each.precision for each in roofline.points}
    ceilings = grouped([each for each in roofline.roofs if each.kind == "compute"])
    memory = [each.rate for each in roofline.roofs if each.kind == "dram"]
    top = ceilings[0][0].rate if ceilings else shown.high
    points = [place_of(axes, each) for each in charted(roofline.points)]
    drawn.taken += _path(points) if within else []
    for kind in ("dram", "l2"):
        _slopes(axes, grouped([roof for roof in roofline.roofs if roof.kind == kind]), shown, top, points, drawn)
    _ceilings(axes, ceilings, shown, max(memory, default=None), needed, drawn)
    if within:
        _words_within(axes, ceilings, shown, drawn)
    else:
        _words_beside(axes, ceilings, shown, needed)
    return drawn


def _ticks(axes: Axes, shown: Limits) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

    for axis, low, high in ((axes.xaxis, shown.left, shown.right), (axes.yaxis, shown.low, shown.high)):
        decades = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
        every = math.ceil(len(decades) / 10)
        axis.set_major_locator(FixedLocator(decades))
        axis.set_major_formatter(FixedFormatter([_si(each) if not at % every else "" for at, each in enumerate(decades)]))
        axis.set_minor_locator(FixedLocator([each * digit for each in (decades[0] / 10, *decades) for digit in range(2, 10)]))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="major", color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="minor", length=2, color=RULE)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _si(value: float) -> str:
    for factor, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.999:
            return f"{value / factor:.0f} {prefix}".rstrip() if prefix != "k" else f"{value / factor:.0f}k"
    return f"{value:g}"


def place_of(axes: Axes, point: RooflinePoint) -> Point:
    """Pixels of a point on the axes."""
    x, y = axes.transData.transform((point.intensity or 1.0, point.flops_per_s))
    return float(x), float(y)


def _slopes(axes: Axes, groups: list[tuple[Roof, ...]], shown: Limits, top: float, points: Sequence[Point], drawn: Drawn) -> None:
    """The highest has its words above it, the lowest below; those between have them on the line."""
    for number, group in enumerate(groups):
        rate = group[0].rate
        start = (max(shown.left, shown.low / rate), max(shown.low, rate * shown.left))
        end = (min(shown.right, top / rate), min(rate * shown.right, top))
        if start[0] >= end[0]:
            continue
        axes.plot(*zip(start, end, strict=True), color=INK, linewidth=1.3, linestyle=DASHES[group[0].source], zorder=2)
        first, last = ((float(x), float(y)) for x, y in axes.transData.transform((start, end)))
        drawn.lines += along(first, last)
        off = 10.0 if number == 0 else -10.0 if number == len(groups) - 1 else 0.0
        _along_slope(axes, slope_text(group), (first, last), off, points, drawn)


def _along_slope(axes: Axes, text: str, slope: tuple[Point, Point], off: float, points: Sequence[Point], drawn: Drawn) -> None:
    """Words in the direction of a line, ``off`` pixels above it, at the first place where they are near no point."""
    figure = figure_of(axes)
    (x0, y0), (x1, y1) = slope
    turn, long = math.atan2(y1 - y0, x1 - x0), width_of(text, SIZE)
    across, up = math.cos(turn), math.sin(turn)

    def words_at(ahead: float) -> list[Box]:
        x, y = x0 + ahead * across - off * up, y0 + ahead * up + off * across
        return along((x, y), (x + long * across, y + long * up), SIZE * DPI / 72 * 1.1, 10.0)

    def crowd(ahead: float) -> int:
        boxes = words_at(ahead)
        near = sum(overlap(box, (x - 30, y - 30, x + 30, y + 30)) > 0 for box in boxes for x, y in points)
        return near + 5 * sum(overlap(box, other) > 0 for box in boxes for other in drawn.taken)

    free = math.dist(*slope) - long - 20
    ahead = min((free * part for part in (0.45, 0.55, 0.35, 0.65, 0.25, 0.75, 0.1, 0.9)), key=crowd)
    boxes = words_at(max(ahead, 20.0))
    start = ((boxes[0][0] + boxes[0][2]) / 2, (boxes[0][1] + boxes[0][3]) / 2)
    style: dict[str, Any] = {} if off else {"bbox": {"facecolor": PAPER, "edgecolor": "none", "pad": 1}}
    style |= {"rotation": math.degrees(turn), "rotation_mode": "anchor", "ha": "left", "va": "center_baseline", "zorder": 3}
    write(figure, start, text, size=SIZE, color=INK, **style)
    drawn.taken += boxes


def _ceilings(
    axes: Axes, groups: list[tuple[Roof, ...]], shown: Limits, memory: float | None, needed: set[str], drawn: Drawn
) -> None:
    """Lines from the steepest slope to the right edge; the ones that cases are read against are dark."""
    for group in groups:
        rate = group[0].rate
        start = min(max(shown.left, rate / memory if memory else shown.left), shown.right)
        wanted = any(roof.precision in needed for roof in group)
        source = "measured" if any(roof.source == "measured" for roof in group) else group[0].source
        style: dict[str, Any] = {"color": INK, "linewidth": 1.3} if wanted else {"color": PALE, "linewidth": 0.9}
        axes.plot([start, shown.right], [rate, rate], linestyle=DASHES[source], zorder=2, **style)
        (x0, y0), (x1, y1) = axes.transData.transform(((start, rate), (shown.right, rate)))
        drawn.lines += along((float(x0), float(y0)), (float(x1), float(y1)))


def _words_beside(axes: Axes, groups: list[tuple[Roof, ...]], shown: Limits, needed: set[str]) -> None:
    """Words to the right of the axes, each joined to its line."""
    figure = figure_of(axes)
    _, bottom, right, top = axes.get_window_extent().extents
    heights = [float(axes.transData.transform((shown.right, group[0].rate))[1]) for group in groups]
    apart = SIZE * DPI / 72 * 1.35
    for group, height, written in zip(groups, heights, spread(heights, apart, bottom + 8, top - 4), strict=True):
        wanted = any(roof.precision in needed for roof in group)
        colour = INK if wanted else PALE
        line(figure, (right, height), (right + GAP, written), (right + GAP + 3, written), color=colour, linewidth=0.8)
        style: dict[str, Any] = {"size": SIZE, "color": INK if wanted else FAINT, "ha": "left", "va": "center_baseline"}
        write(figure, (right + GAP + 6, written), ceiling_text(group), **style)


def _words_within(axes: Axes, groups: list[tuple[Roof, ...]], shown: Limits, drawn: Drawn) -> None:
    """Words above or below each line, where they cover least."""
    figure = figure_of(axes)
    left, bottom, right, top = axes.get_window_extent().extents
    for group in groups:
        text = ceiling_text(group)
        long, height = width_of(text, SIZE), float(axes.transData.transform((shown.right, group[0].rate))[1])
        starts = [right - long - 4 - part * (right - left - long) for part in (0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)]
        boxes = [(x - 2, height + up - 7.5, x + long + 2, height + up + 7.5) for x in starts for up in (10, -10)]

        def covered(box: Box) -> float:
            beyond = max(0.0, bottom - box[1]) + max(0.0, box[3] - top) + max(0.0, left - box[0])
            return (
                1000 * beyond
                + sum(overlap(box, other) for other in drawn.taken)
                + 0.3 * sum(overlap(box, other) for other in drawn.lines)
            )

        box = min(boxes, key=covered)
        start = (box[0] + 2, (box[1] + box[3]) / 2)
        write(figure, start, text, size=SIZE, color=INK, ha="left", va="center_baseline", zorder=3, bbox=CLEAR)
        drawn.taken.append(box)


def _path(points: Sequence[Point]) -> list[Box]:
    """The markers, and where two points have an arrow, its way."""
    markers = [(x - 8, y - 8, x + 8, y + 8) for x, y in points]
    return [*markers, *along(points[0], points[1], 8.0)] if len(points) == 2 else markers
