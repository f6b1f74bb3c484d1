"""Draw variants: below the roofline, with a colour for each variant and a shape for each config.

Over a parameter: GB/s and TFLOP/s against it, a line with its interval for each variant. The command line writes
`variants_figure` as a PNG and an SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from ratchet import figure_style as style
from ratchet import tools
from ratchet.common.rooflines import Roofline
from ratchet.figure_style import FAINT, INK, TITLE, FigureSection, legend_section, lines_of, text_section
from ratchet.lab.records.variants import VariantsRecord
from ratchet.lab.report.variants import averages, machine_text, names_of, value_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

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


def variants_figure(record: VariantsRecord) -> Figure:
    """Draw the variants of a benchmark, within `style.drawing`."""
    if record.parameter:
        return sweep_figure(record)
    benchmark = record.cases[0].benchmark if record.cases else ""
    title = {"device": f"{benchmark} · {record.environment.fingerprint.processor}", "notes": tuple(averages(record))}
    figure: Figure = tools.part("roofline_figure").roofline_figure(
        (record.roofline or Roofline(device="")).model_copy(update=title)
    )
    return figure


def sweep_figure(record: VariantsRecord) -> Figure:
    """Draw a chart for each rate that the benchmark declares work for, one below the other, within `style.drawing`."""
    benchmark = record.cases[0].benchmark if record.cases else ""
    lines = lines_of(f"{benchmark} over {record.parameter}", TITLE, most=2)
    lines += lines_of(f"Median and 95 % interval, on {machine_text(record)}", FAINT)
    names = names_of(record)
    drawn = [quantity for quantity in _QUANTITIES if any(_points(record, name, quantity) for name in names)]
    if not drawn:
        return style.stacked([text_section([*lines, *lines_of("no variant with a time and with FLOPs or bytes", FAINT)])])
    charts: FigureSection = (2.5 * len(drawn) + 0.4, partial(_draw_sweeps, record, drawn))
    handles: list[Artist] = [_line(number, name, [], []) for number, name in enumerate(names)]
    return style.stacked([text_section(lines), charts, legend_section(handles)])


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


def _draw_sweeps(record: VariantsRecord, quantities: Sequence[Quantity], part: SubFigure) -> None:
    from matplotlib.ticker import NullLocator

    charts = part.subplots(len(quantities), sharex=True, squeeze=False)[:, 0]
    for axes, quantity in zip(charts, quantities, strict=True):
        _draw_sweep(record, quantity, axes)
    values = sorted(value_of(record, case) for case in record.cases)
    is_wide = values[-1] > 8 * values[0] > 0
    axes = charts[-1]
    axes.set(xscale="log" if is_wide else "linear", xlabel=record.parameter)
    if len(values) > 1:
        margin = (values[-1] / values[0]) ** 0.03 if is_wide else 0.03 * (values[-1] - values[0])
        axes.set_xlim((values[0] / margin, values[-1] * margin) if is_wide else (values[0] - margin, values[-1] + margin))
    shown = values[:: -(-len(values) // _TICKS)]
    axes.set_xticks(shown, [_short(value) for value in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_sweep(record: VariantsRecord, quantity: Quantity, axes: Axes) -> None:
    highest = 0.0
    for number, name in enumerate(names_of(record)):
        points = _points(record, name, quantity)
        line = _line(number, name, [point[0] for point in points], [point[1] for point in points])
        axes.add_line(line)
        lows, highs = [point[2] for point in points], [point[3] for point in points]
        axes.fill_between([point[0] for point in points], lows, highs, color=line.get_color(), alpha=0.2, linewidth=0)
        rates = [point[1] for point in points]
        highest = max([highest, *(min(high, 1.5 * max(rates)) for high in highs)])  # a wide interval is cut off, not the lines
    roof = next((roof for roof in record.roofline.roofs if roof.kind == quantity.roof), None) if record.roofline else None
    if roof and roof.rate / quantity.scale < 4 * highest:  # a roof far above would press the lines to the ground
        axes.axhline(roof.rate / quantity.scale, color=INK, linewidth=1, linestyle="--")
        highest = max(highest, roof.rate / quantity.scale)
    axes.set(ylim=(0, 1.12 * highest), ylabel=quantity.label)
    axes.grid(visible=True, linewidth=0.6)
    if roof and roof.rate / quantity.scale <= highest:
        axes.text(
            0.01, roof.rate / quantity.scale, f"{roof.source} peak", transform=axes.get_yaxis_transform(),
            va="bottom", size=style.SMALL, color=style.GREY, zorder=1.5,
            bbox={"facecolor": style.PAPER, "linewidth": 0, "pad": 1},
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
