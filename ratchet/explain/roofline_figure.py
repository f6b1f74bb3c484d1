"""A roofline as text and as a picture, log-log: roofs as lines, cases as marks that a legend names, cases without FLOPs as bars.

`ratchet variants --roofline` prints `roofline_lines`, and writes `roofline_figure` as a PNG and an SVG; `page` puts the two sides
of one case on its page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ratchet import figure_style as style
from ratchet.common.baseline_text import table
from ratchet.common.rooflines import Roof, Roofline, RooflinePoint
from ratchet.core import units
from ratchet.core.report.words import ABOVE, NOTHING
from ratchet.core.untrusted import CELL, log_line
from ratchet.figure_style import FAINT, INK, NOTE, SMALL, TITLE, FigureSection, legend_section, lines_of, text_section

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

BOUND = {
    "memory": "memory",
    "compute": "compute",
    "cache": "L2 cache",
    "neither": "neither: below half of every roof",
}
ABOVE_MEANS = "Above a roof, because the data come from a cache or the case declares too much work"
_HEADINGS = ("Case", "FLOP/B", "FLOP/s", "B/s", "Of the roofs", "Bound by", "Work", "Time")
_FROM = {"counters": "counted", "declared": "declared"}


def roofline_lines(roofline: Roofline) -> list[str]:
    """Return the roofs, a line for each case, and the notes."""
    lines = [log_line(f"{roofline.device}: {units.plural(len(roofline.points), 'case')}.")]
    roofs = sorted(roofline.roofs, key=lambda roof: (roof.kind == "compute", -roof.rate, roof.key))
    lines += table([("Roof", "", ""), *map(_roof_row, roofs)], right=1) if roofs else []
    lines += table([_HEADINGS, *(_row(point, roofline) for point in roofline.points)], right=1)
    above = [point.case for point in roofline.points if any(share > ABOVE for share in point.shares.values())]
    notes = [*roofline.notes, *([f"{ABOVE_MEANS}: {', '.join(dict.fromkeys(above))}."] if above else [])]
    return lines + [log_line(f"Note: {note}", 600) for note in notes]


def precision_text(precision: str | None) -> str:
    """Convert ``tensor_bf16`` to ``BF16 tensor``."""
    name = precision or ""
    return f"{name.removeprefix('tensor_').upper()} tensor" if name.startswith("tensor_") else name.upper()


def intensity_text(value: float | None) -> str:
    """Format FLOP per byte: 0.75, 128, 1365."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def share_text(share: float) -> str:
    """Format a share of a roof, such as ``86 %``; ``above`` where the roof does not limit the case."""
    return "above" if share > ABOVE else units.percent(share)


def roof_text(roof: Roof) -> str:
    """Format the rate of a roof: ``4.80 TB/s``, ``989 TFLOP/s``."""
    return units.rate(roof.rate, "FLOP/s" if roof.kind == "compute" else "B/s")


def slope_text(roof: Roof) -> str:
    """Return the words along a slope."""
    name = "L2" if roof.kind == "l2" else "copy" if roof.source == "measured" else "DRAM"
    return f"{name} {roof_text(roof)}, {roof.source}"


def ceiling_text(group: Sequence[Roof]) -> str:
    """Return the words beside a ceiling that one or several roofs share."""
    names = list(dict.fromkeys(roof.precision or "" for roof in sorted(group, key=lambda roof: roof.precision or "")))
    plain = [precision_text(name) for name in names if not name.startswith("tensor_")]
    matrix = [precision_text(name).removesuffix(" tensor") for name in names if name.startswith("tensor_")]
    words = [*plain, *([f"{', '.join(matrix)} tensor"] if matrix else [])]
    return f"{roof_text(group[0])} {', '.join(words)}, {' and '.join(sorted({roof.source for roof in group}))}"


def _roof_row(roof: Roof) -> tuple[str, str, str]:
    name = precision_text(roof.precision) if roof.kind == "compute" else {"dram": "DRAM", "l2": "L2"}[roof.kind]
    return name, roof_text(roof), roof.source


def _row(point: RooflinePoint, roofline: Roofline) -> tuple[str, ...]:
    side = f" ({point.side})" if point.side else ""
    return (
        f"{log_line(point.case, CELL)}{side}",
        intensity_text(point.intensity),
        units.rate(point.flops_per_s, "FLOP/s") if point.flops else NOTHING,
        units.rate(point.bytes_per_s, "B/s") if point.bytes else NOTHING,
        _shares(point, roofline),
        BOUND[point.bound] if point.bound else NOTHING,
        _FROM[point.source],
        point.timed_by,
    )


def _shares(point: RooflinePoint, roofline: Roofline) -> str:
    """Return each kind of roof once, with the share of every source: ``DRAM 86 % datasheet, 100 % measured; BF16 tensor …``."""
    kinds: dict[str, list[str]] = {}
    for roof in roofline.roofs:
        if roof.key in point.shares:
            kind = "DRAM" if roof.kind == "dram" else precision_text(roof.precision)
            kinds.setdefault(kind, []).append(f"{share_text(point.shares[roof.key])} {roof.source}")
    return "; ".join(f"{name} {', '.join(parts)}" for name, parts in sorted(kinds.items())) or NOTHING


# The picture.

_SHAPES = "osD^vPX<>ph*"
_DASHES: dict[str, Any] = {"measured": "solid", "report": (0, (6, 2)), "datasheet": (0, (2, 2))}
_UNUSED = "#a6a6a6"
"""Colour of a ceiling that no case is read against."""
_ONE_LINE = 1.03
"""Roofs that differ by less are one line with one label: on a chart of many decades they coincide."""
_LABEL = 112
"""Points that the label of a ceiling may take."""


@dataclass(frozen=True)
class Mark:
    """A point with its label, colour and shape."""

    point: RooflinePoint
    label: str
    colour: str
    shape: str = "o"

    @property
    def face(self) -> str:
        """Colour of its inside: solid where the profiler counted the work, hollow where the benchmark declares it."""
        return self.colour if self.point.source == "counters" else "none"

    @property
    def place(self) -> tuple[float, float]:
        """Position in FLOP per byte and FLOP per second."""
        return self.point.intensity or 1.0, self.point.flops_per_s

    def line(self) -> Line2D:
        """Make the mark at its place, for the axes and for a legend."""
        from matplotlib.lines import Line2D

        return Line2D(
            [self.place[0]], [self.place[1]], label=self.label, marker=self.shape, markersize=7, markeredgewidth=1.6,
            markerfacecolor=self.face, markeredgecolor=self.colour, linestyle="none", zorder=5,
        )  # fmt: skip


def roofline_figure(roofline: Roofline) -> Figure:
    """Draw all cases of a roofline, within `style.drawing`."""
    marks = marks_of(roofline.points)
    idle = [mark for mark in marks if not mark.point.flops and mark.point.bytes]
    lines = lines_of(f"Roofline · {roofline.device}", TITLE, most=2)
    lines += lines_of("The percentage is the share of the nearest roof, the measured one where there is one.", FAINT)
    meaning = {"counters": "Solid: work counted by the profiler.", "declared": "Hollow: work declared by the benchmark."}
    present = {point.source for point in roofline.points}
    lines += lines_of(" ".join(text for source, text in meaning.items() if source in present), FAINT)
    sections = [text_section(lines), *chart_sections(roofline, [mark for mark in marks if mark.point.intensity])]
    if idle:
        sections += [
            text_section(lines_of("Cases without FLOPs: bytes per second, beside the roofs of the memory"), 0.12),
            (0.1 + 0.28 * len(idle), lambda part: _draw_idle(part.subplots(), roofline.roofs, idle)),
        ]
    notes = [line for note in roofline.notes for line in lines_of(f"Note: {note}", NOTE)]
    return style.stacked([*sections, *([text_section(notes)] if notes else [])])


def marks_of(points: Sequence[RooflinePoint]) -> list[Mark]:
    """Choose a colour for each benchmark and a shape for each of its configs."""
    configs: dict[str, list[str]] = {}
    marks = []
    for point in points:
        benchmark = point.case.partition("/")[0]
        known = configs.setdefault(benchmark, [])
        if point.case not in known:
            known.append(point.case)
        again, colour = divmod(list(configs).index(benchmark), len(style.PALETTE))  # colours come again with other shapes
        shape = _SHAPES[(known.index(point.case) + 4 * again) % len(_SHAPES)]
        marks.append(Mark(point, f"{point.case} {share(point)}".rstrip(), style.PALETTE[colour], shape))
    return marks


def share(point: RooflinePoint) -> str:
    """Format the share of the nearest roof, such as ``86 %``; empty where no roof applies to the point."""
    if point.bound is None:
        return share_text(max(point.shares.values())) if point.shares else ""
    return share_text(point.shares[point.bound_roof]) if point.bound_roof else ""


def sides_sections(roofline: Roofline | None) -> list[FigureSection]:
    """Return sections with both sides of one case, and an arrow from reference to head; words where there is nothing to draw."""
    points = roofline.points if roofline else ()
    if roofline is None or not points:
        return [text_section(lines_of("no counters of FLOPs and DRAM bytes", FAINT), above=0)]
    colours = {"reference": style.REFERENCE}
    names = [f"{point.side or 'case'} {share(point)}".rstrip() for point in points]
    sides = [Mark(point, name, colours.get(point.side or "", style.HEAD)) for point, name in zip(points, names, strict=True)]
    charted = [mark for mark in sides if mark.point.intensity]
    if not charted:
        rates = ", ".join(f"{mark.label}: {units.rate(mark.point.bytes_per_s, 'B/s')}" for mark in sides)
        return [text_section(lines_of(f"no FLOPs counted; device memory: {rates}", FAINT), above=0)]
    last = charted[-1].point
    bound = {None: "", "neither": "below half of every roof, "}.get(last.bound, f"bound by {BOUND.get(last.bound or '')}, ")
    timed = "time of the benchmark" if last.timed_by == "benchmark" else "time under the profiler"
    brief = roofline.model_copy(update={"roofs": needed_roofs(roofline)})
    return [text_section(lines_of(f"{bound}{timed}", NOTE), above=0), *chart_sections(brief, charted)]


def needed_roofs(roofline: Roofline) -> tuple[Roof, ...]:
    """Choose the roofs that the points are read against: measured ones, and those of the datasheet or else of the report."""
    needed = {point.precision for point in roofline.points}
    near = [roof for roof in roofline.roofs if roof.kind == "dram" or roof.precision in needed]
    printed = {(roof.kind, roof.precision) for roof in near if roof.source == "datasheet"}
    return tuple(roof for roof in near if roof.source != "report" or (roof.kind, roof.precision) not in printed)


def chart_sections(roofline: Roofline, marks: Sequence[Mark]) -> list[FigureSection]:
    """Return roofs and marks on logarithmic axes, and the legends below them."""
    ceilings = grouped([roof for roof in roofline.roofs if roof.kind == "compute"])
    chart: FigureSection = (2.4 + 0.2 * len(ceilings), lambda part: _draw_chart(part.subplots(), roofline, ceilings, marks))
    legends: list[Sequence[Artist]] = [[mark.line() for mark in marks], _line_styles(roofline.roofs)]
    return [chart, *(legend_section(handles) for handles in legends if handles)]


def _draw_chart(axes: Axes, roofline: Roofline, ceilings: Sequence[tuple[Roof, ...]], marks: Sequence[Mark]) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

    axes.set(xscale="log", yscale="log", xlabel="Arithmetic intensity: FLOP per byte of device memory", ylabel="FLOP/s")
    prefixed = EngFormatter(sep=" ")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: prefixed(value) if value >= 1 else f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, linewidth=0.6)
    _draw_roofs(axes, roofline, ceilings, [mark.point for mark in marks])
    places = {mark.point.side: mark.place for mark in marks}
    for mark in marks:
        axes.add_line(mark.line())
    if not marks:
        axes.text(0.5, 0.1, "no case with FLOPs and bytes", transform=axes.transAxes, color=style.GREY, ha="center")
    if {"reference", "head"} <= set(places):
        arrow = {"arrowstyle": "-|>", "color": style.HEAD, "linewidth": 1.4, "shrinkA": 4, "shrinkB": 4}
        axes.annotate("", xy=places["head"], xytext=places["reference"], arrowprops=arrow, zorder=4)


def _draw_roofs(axes: Axes, roofline: Roofline, ceilings: Sequence[tuple[Roof, ...]], points: Sequence[RooflinePoint]) -> None:
    """Draw slopes and ceilings, and label the ceilings to the right of the axes."""
    slopes = [roof for roof in roofline.roofs if roof.kind != "compute"]
    intensities = [point.intensity or 1.0 for point in points] or [1.0]
    rates = [point.flops_per_s for point in points]
    memory = [roof.rate for roof in slopes if roof.kind == "dram"]
    highest = ceilings[0][0].rate if ceilings else math.inf
    corner = highest / min(memory) if ceilings and memory else max(intensities)  # where the slopes end
    left, right = min(min(intensities) / 4, corner / 30), max(max(intensities) * 3, corner * 3)
    top = 1.6 * max([*([highest] if ceilings else [rate * right / 3 for rate in memory]), *rates], default=1e12)
    bottoms = [*(rate / 4 for rate in rates), *(rate * left for rate in memory), *(group[0].rate / 2 for group in ceilings)]
    low = min(bottoms, default=top / 1e3)
    axes.set(xlim=(left, right), ylim=(low, top))
    for roof in slopes:
        end = min(right, highest / roof.rate)
        axes.plot([left, end], [roof.rate * left, roof.rate * end], color=INK, linewidth=1.2, linestyle=_DASHES[roof.source])
    needed = {point.precision for point in roofline.points}
    apart = (top / low) ** (2.3 * SMALL / (72 * (1.4 + 0.2 * len(ceilings))))  # factor between labels of two lines of text
    heights = _spread([group[0].rate for group in ceilings], apart, top)
    for group, height in zip(ceilings, heights, strict=True):
        rate, is_needed = group[0].rate, any(roof.precision in needed for roof in group)
        source = "measured" if any(roof.source == "measured" for roof in group) else group[0].source
        line: dict[str, Any] = {"color": INK if is_needed else _UNUSED, "linewidth": 1.2 if is_needed else 0.9}
        axes.plot([min(rate / max(memory), right) if memory else left, right], [rate, rate], linestyle=_DASHES[source], **line)
        axes.annotate(
            "\n".join(style.wrapped(ceiling_text(group), SMALL, _LABEL, 2)), xy=(1, rate), xytext=(1.04, height),
            xycoords=("axes fraction", "data"), textcoords=("axes fraction", "data"), va="center", size=SMALL, linespacing=1,
            color=INK if is_needed else style.GREY,
            arrowprops=line | {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip


def _spread(rates: Sequence[float], apart: float, top: float) -> list[float]:
    """Return heights for labels near falling rates: below ``top``, each lower than the one before by a factor of ``apart``."""
    raised = list(accumulate(reversed(rates), lambda below, rate: max(rate, below * apart)))
    return list(accumulate(reversed(raised), lambda above, rate: min(rate, above / apart), initial=top * apart**0.5))[1:]


def grouped(roofs: Sequence[Roof]) -> list[tuple[Roof, ...]]:
    """Join roofs that fall on one line; the highest line first."""
    groups: list[list[Roof]] = []
    for roof in sorted(roofs, key=lambda roof: (-roof.rate, roof.key)):
        if groups and groups[-1][0].rate / roof.rate < _ONE_LINE:
            groups[-1].append(roof)
        else:
            groups.append([roof])
    return [tuple(group) for group in groups]


def _line_styles(roofs: Sequence[Roof]) -> list[Artist]:
    """Return one line for each source of roofs, with the rates of its slopes."""
    from matplotlib.lines import Line2D

    handles: list[Artist] = []
    for source, dashes in _DASHES.items():
        own = [roof for roof in roofs if roof.source == source]
        slopes = "; ".join(slope_text(roof) for roof in own if roof.kind != "compute")
        if own:
            handles.append(Line2D([], [], color=INK, linestyle=dashes, linewidth=1.2, label=slopes or source))
    return handles


def _draw_idle(axes: Axes, roofs: Sequence[Roof], idle: Sequence[Mark]) -> None:
    """Draw cases without FLOPs, which have no intensity: their bytes per second, against the roofs of the memory."""
    rates = [mark.point.bytes_per_s for mark in idle]
    axes.barh(range(len(idle)), rates, 0.5, color=[mark.face for mark in idle], edgecolor=[mark.colour for mark in idle])
    for row, rate in enumerate(rates):
        axes.text(1.02, row, units.rate(rate, "B/s"), transform=axes.get_yaxis_transform(), size=SMALL, va="center")
    for roof in roofs:
        if roof.kind == "dram":
            axes.axvline(roof.rate, color=INK, linewidth=1.2, linestyle=_DASHES[roof.source], zorder=0)
    style.bar_axes(axes, [mark.label for mark in idle])
