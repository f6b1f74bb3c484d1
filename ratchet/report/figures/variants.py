"""Draw variants. A study is a roofline with shaded regions, a shape for each variant, a colour for each config, and insights.

A sweep is GB/s and TFLOP/s against the size, a line with its interval for each variant. The command line calls `draw_study` and
`draw_sweep`, which write one PNG and one SVG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ratchet import units
from ratchet.records.profile import Roof
from ratchet.records.variants import VariantsRecord
from ratchet.report.figures import style
from ratchet.report.figures.style import BODY, FAINT, INK, SMALL, TITLE, FigureSection, legend_section, lines_of, text_section
from ratchet.report.variants import insights, machine_text, names_of, roof_of, value_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

_OWN, _OTHERS = "^", "osDPXvp*"
"""Shapes: a triangle for the benchmark's own variant, a circle for the first other one."""
_SIGNS = {"^": "▲", "o": "●", "s": "■", "D": "◆", "v": "▼"}
_MEMORY, _COMPUTE, _BOX = "#c0392b", "#2a5db0", "#fbf1dc"
_SHADE = 0.1
_LINE = 1.55 * SMALL
"""Points from label to label."""
_BESIDE = 0.52
"""Where the labels begin, as a share of the axes' width."""


@dataclass(frozen=True)
class StudyMark:
    """One variant of one config."""

    intensity: float
    flops_per_s: float
    config: str
    shape: str
    colour: str

    @property
    def label(self) -> str:
        """Return its rate and intensity, after its sign and its config."""
        rate = self.flops_per_s / 1e9
        shown = f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"
        config = style.shortened(self.config, SMALL, 60)
        return f"{_SIGNS.get(self.shape, '+')} {config} {shown} GFLOPS ({self.intensity:.2f} FLOP/B)"


def draw_study(record: VariantsRecord, folder: Path, name: str) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``. Raises PageError where matplotlib is missing, OutputError for an unwritable folder."""
    with style.drawing():
        return style.write_files(study_figure(record), folder, name)


def study_figure(record: VariantsRecord) -> Figure:
    """Draw all variants of all configs, within `style.drawing`."""
    machine = record.environment.fingerprint
    benchmark = record.cases[0].benchmark if record.cases else ""
    lines = lines_of(f"Roofline of {benchmark} · {machine.processor}", TITLE, most=2)
    lines += lines_of("FLOPs and bytes are what the work needs: what a variant moves besides puts it lower.", FAINT)
    marks = marks_of(record)
    if not marks:
        return style.stacked([text_section([*lines, *lines_of("no variant with FLOPs, bytes and a time", FAINT)])])
    height = max(4.2, 1.9 * _LINE / 72 * len(marks))
    chart = FigureSection(height, lambda part: _draw_study(part.subplots(), marks, record, height))
    legends = [_shapes(record), _colours(marks), _areas(record)]
    return style.stacked([text_section(lines), chart, *map(legend_section, filter(None, legends)), _insight_box(record)])


def marks_of(record: VariantsRecord) -> list[StudyMark]:
    """Return a mark for each variant that has a time and declares FLOPs and bytes, the fastest first."""
    shapes = _shapes_of(record)
    configs = list(dict.fromkeys(case.config.name for case in record.cases))
    marks = [
        StudyMark(
            case.intensity, rate, case.config.name, shapes[variant.name], style.PALETTE[configs.index(case.config.name) % 6]
        )
        for case in record.cases
        for variant in case.variants
        if case.intensity and (rate := case.rate(variant, "flops"))
    ]
    return sorted(marks, key=lambda mark: -mark.flops_per_s)


def _shapes_of(record: VariantsRecord) -> dict[str, str]:
    own = [case.variants[0].name for case in record.cases if case.variants][:1]
    others = dict.fromkeys(variant.name for case in record.cases for variant in case.variants[1:])
    return dict.fromkeys(own, _OWN) | {name: _OTHERS[number % len(_OTHERS)] for number, name in enumerate(others)}


def _draw_study(axes: Axes, marks: Sequence[StudyMark], record: VariantsRecord, height: float) -> None:
    import numpy as np
    from matplotlib.ticker import FuncFormatter, NullFormatter

    memory, compute = roof_of(record, "dram"), roof_of(record, "compute")
    intensities, rates = [mark.intensity for mark in marks], [mark.flops_per_s for mark in marks]
    middle = math.sqrt(min(intensities) * max(intensities))
    left, right = min(middle / 75, min(intensities) / 3), max(middle * 130, max(intensities) * 3)
    top = 2 * max([*rates, *([compute.rate] if compute else [])])
    room = 72 * (height - 0.6)
    labels = len(marks) * _LINE / room  # share of the axis that they take below the highest mark
    below = labels / (1 - labels) * math.log10(top / rates[0]) + 0.25
    bottom = min(rates[-1] / 3, rates[0] / 10**below)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    axes.set(xlabel="Arithmetic Intensity (FLOPs/byte)", ylabel="Performance (GFLOPS)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e9:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, linewidth=0.6, linestyle=":")
    x = np.geomspace(left, right, 400)
    slope = memory.rate * x if memory else np.full_like(x, np.inf)
    ceiling = np.full_like(x, compute.rate if compute else np.inf)
    if memory:
        axes.fill_between(x, bottom, slope, where=slope < ceiling, color=_MEMORY, alpha=_SHADE, linewidth=0)
        axes.plot(x, slope, color=INK, linewidth=0.9, linestyle="--", alpha=0.5)
    if compute:
        axes.fill_between(x, bottom, ceiling, where=slope >= ceiling, color=_COMPUTE, alpha=_SHADE, linewidth=0)
        axes.plot(x, ceiling, color=INK, linewidth=0.9, linestyle="--", alpha=0.5)
    if memory and compute:
        axes.plot(x, np.minimum(slope, ceiling), color=INK, linewidth=2)
    apart = (top / bottom) ** (_LINE / room)
    heights = accumulate(rates, lambda above, rate: min(rate, above / apart))
    for mark, place in zip(marks, heights, strict=True):
        axes.add_line(_mark_line(mark.shape, mark.colour, "", [mark.intensity], [mark.flops_per_s]))
        axes.annotate(
            mark.label, xy=(mark.intensity, mark.flops_per_s), xytext=(_BESIDE, place), xycoords="data",
            textcoords=axes.get_yaxis_transform(), va="center", size=SMALL, color=mark.colour,
            arrowprops={
                "arrowstyle": "-", "color": mark.colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 5, "relpos": (0, 0.5)
            },
        )  # fmt: skip


def _mark_line(shape: str, colour: str, label: str, x: Sequence[float] = (), y: Sequence[float] = ()) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D(x, y, label=label, marker=shape, markersize=7, color=colour, linestyle="none", zorder=5)


def _shapes(record: VariantsRecord) -> list[Artist]:
    return [_mark_line(shape, style.GREY, name) for name, shape in _shapes_of(record).items()]


def _colours(marks: Sequence[StudyMark]) -> list[Artist]:
    colours = {mark.config: mark.colour for mark in marks}
    order = sorted(colours.items(), key=lambda item: style.PALETTE.index(item[1]))
    return [_mark_line("s", colour, config) for config, colour in order]


def _areas(record: VariantsRecord) -> list[Artist]:
    from matplotlib.patches import Patch

    memory, compute = roof_of(record, "dram"), roof_of(record, "compute")
    areas: list[tuple[Roof | None, str, str, str]] = [
        (memory, "B/s", "Memory-bound region", _MEMORY),
        (compute, "FLOP/s", "Compute-bound region", _COMPUTE),
    ]
    return [
        Patch(color=colour, alpha=2 * _SHADE, linewidth=0, label=f"{name}: {units.rate(roof.rate, unit)}, {roof.source}")
        for roof, unit, name, colour in areas
        if roof
    ]


def _insight_box(record: VariantsRecord) -> FigureSection:
    text = text_section(
        [*lines_of("Insights", style.STRONG), *(line for one in insights(record) for line in lines_of(f"• {one}", BODY, most=3))],
        0.1,
    )

    def draw(part: SubFigure) -> None:
        part.set_facecolor(_BOX)
        text.draw(part)

    return FigureSection(text.height + 0.08, draw)


# A sweep.


_SHAPES = "^osDPXv"
_TICKS = 10
"""Most values named on the axis of sizes."""


@dataclass(frozen=True)
class Quantity:
    """A rate that is drawn."""

    unit: Literal["bytes", "flops"]
    label: str
    scale: float
    roof: Literal["dram", "compute"]


_QUANTITIES = (Quantity("bytes", "GB/s", 1e9, "dram"), Quantity("flops", "TFLOP/s", 1e12, "compute"))


def draw_sweep(record: VariantsRecord, folder: Path, name: str) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``. Raises PageError where matplotlib is missing, OutputError for an unwritable folder."""
    with style.drawing():
        return style.write_files(sweep_figure(record), folder, name)


def sweep_figure(record: VariantsRecord) -> Figure:
    """Draw a chart for each rate that the benchmark declares work for, within `style.drawing`."""
    benchmark = record.cases[0].benchmark if record.cases else ""
    lines = lines_of(f"{benchmark} over {record.parameter}", TITLE, most=2)
    lines += lines_of(f"Median and 95 % interval, on {machine_text(record)}", FAINT)
    names = names_of(record)
    drawn = [quantity for quantity in _QUANTITIES if any(_points(record, name, quantity) for name in names)]
    if not drawn:
        return style.stacked([text_section([*lines, *lines_of("no variant with a time and with FLOPs or bytes", FAINT)])])
    charts = [FigureSection(2.9, partial(_draw_sweep, record, quantity)) for quantity in drawn]
    handles: list[Artist] = [_line(number, name, [], []) for number, name in enumerate(names)]
    return style.stacked([text_section(lines), *charts, legend_section(handles)])


def _points(record: VariantsRecord, name: str, quantity: Quantity) -> list[tuple[float, float, float, float]]:
    """Return the value, and the rate with the ends of its interval, of each case in which this variant has them."""
    found = []
    for case in record.cases:
        for variant in case.variants:
            rate = case.rate(variant, quantity.unit)
            if variant.name == name and rate and variant.median_ms and variant.low_ms and variant.high_ms:
                ends = (rate * variant.median_ms / end for end in (variant.high_ms, variant.low_ms))
                found.append((value_of(record, case), *(each / quantity.scale for each in (rate, *ends))))
    return [(value, rate, low, high) for value, rate, low, high in sorted(found)]


def _draw_sweep(record: VariantsRecord, quantity: Quantity, part: SubFigure) -> None:
    from matplotlib.ticker import NullLocator

    axes = part.subplots()
    values = sorted(value_of(record, case) for case in record.cases)
    highest = 0.0
    for number, name in enumerate(names_of(record)):
        points = _points(record, name, quantity)
        line = _line(number, name, [point[0] for point in points], [point[1] for point in points])
        axes.add_line(line)
        lows, highs = [point[2] for point in points], [point[3] for point in points]
        axes.fill_between([point[0] for point in points], lows, highs, color=line.get_color(), alpha=0.2, linewidth=0)
        highest = max([highest, *highs])
    roof = roof_of(record, quantity.roof)
    if roof and roof.rate / quantity.scale < 4 * highest:  # a roof far above would press the lines to the ground
        axes.axhline(roof.rate / quantity.scale, color=INK, linewidth=1, linestyle="--")
        highest = max(highest, roof.rate / quantity.scale)
    is_wide = values[-1] > 8 * values[0] > 0
    axes.set(xscale="log" if is_wide else "linear", ylim=(0, 1.12 * highest), xlabel=record.parameter, ylabel=quantity.label)
    if len(values) > 1:
        margin = (values[-1] / values[0]) ** 0.03 if is_wide else 0.03 * (values[-1] - values[0])
        axes.set_xlim((values[0] / margin, values[-1] * margin) if is_wide else (values[0] - margin, values[-1] + margin))
    shown = values[:: -(-len(values) // _TICKS)]
    axes.set_xticks(shown, [_short(value) for value in shown])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, linewidth=0.6)
    if roof and roof.rate / quantity.scale <= highest:
        axes.text(
            0.01, roof.rate / quantity.scale, f"{roof.source} peak", transform=axes.get_yaxis_transform(),
            va="bottom", size=style.SMALL, color=style.GREY,
        )  # fmt: skip


def _line(number: int, name: str, x: Sequence[float], y: Sequence[float]) -> Line2D:
    from matplotlib.lines import Line2D

    colour = style.PALETTE[number % len(style.PALETTE)]
    return Line2D(x, y, label=name, color=colour, linewidth=1.6, marker=_SHAPES[number % len(_SHAPES)], markersize=5, zorder=3)


def _short(value: float) -> str:
    """Format a size: 512, 1Ki, 64Ki, 2Mi; 1000 stays."""
    for factor, unit in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if value >= factor and value % factor == 0:
            return f"{value / factor:.0f}{unit}"
    return f"{value:.6g}"
