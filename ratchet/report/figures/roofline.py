"""The roofline, log-log: roofs as labelled lines, cases as labelled points, cases without FLOPs on a strip below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet import units
from ratchet.records.roofline import Roof, Roofline, RooflinePoint
from ratchet.report.figures import canvas
from ratchet.report.figures.axes import CLEAR, DASHES, SIZE, Drawn, charted, draw_axes, grouped, limits_of, place_of
from ratchet.report.figures.canvas import DPI, FAINT, INK, MARKERS, PALETTE, PAPER, RULE, WIDTH, figure_of, line, write
from ratchet.report.figures.labels import Point, place, spread
from ratchet.report.roofline import roof_text, share_text, sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = 10.5
"""Of the words beside a point, in points."""
_HIGH = LABEL * DPI / 72 * 1.2
_LEFT, _TOP, _WIDE, _MARGIN = 90, 104, 790, 320
_STRIP = 128
"""Pixels that the strip takes."""
_ROW = 24


@dataclass(frozen=True)
class Look:
    """How one point is drawn."""

    name: str
    colour: str
    shape: str


def draw_roofline(roofline: Roofline, folder: Path, name: str = "roofline") -> list[Path]:
    """Write ``NAME.png``, `WIDTH` pixels wide, and ``NAME.svg``; their paths. Raises PageError, OutputError."""
    with canvas.drawing():
        return canvas.write_files(roofline_figure(roofline), folder, name)


def roofline_figure(roofline: Roofline) -> Figure:
    """The whole picture. Only within `canvas.drawing`."""
    idle = [each for each in roofline.points if not each.flops and each.bytes]
    strip = _STRIP + _ROW * max(0, len(idle) - 1) if idle else 0
    notes = [f"Note: {note}" for note in roofline.notes]
    lines = [text for note in notes for text in canvas.wrapped(note, 9.5, WIDTH - 60, 3)]
    height = 720 + strip + 18 * len(lines)
    figure = canvas.new_figure(height)
    _head(figure, roofline, height)
    axes = canvas.axes_at(figure, _LEFT, _TOP, _WIDE, 540)
    drawn = draw_axes(axes, roofline, limits_of(roofline))
    axes.set_xlabel("Arithmetic intensity: FLOP per byte of device memory", fontsize=11, color=INK)
    axes.set_ylabel("FLOP/s", fontsize=11, color=INK)
    looks = looks_of(roofline.points)
    shown = charted(roofline.points)
    draw_points(axes, shown, [looks[each.case] for each in shown], drawn)
    if not shown:
        write(
            figure, (_LEFT + _WIDE / 2, height - _TOP - 500), "no case with FLOPs and bytes", size=LABEL, color=FAINT, ha="center"
        )
    if idle:
        _strip(figure, roofline, idle, looks, _TOP + 540 + 104)
    for number, text in enumerate(reversed(lines)):
        write(figure, (24, 14 + 18 * number), text, size=9.5, color=FAINT, va="bottom")
    return figure


def looks_of(points: Sequence[RooflinePoint]) -> dict[str, Look]:
    """A colour and a shape for each benchmark; case → look."""
    families = list(dict.fromkeys(each.case.partition("/")[0] for each in points))
    found = {}
    for each in points:
        number = families.index(each.case.partition("/")[0])
        known = each.shares.values() if each.bound is None else [each.shares[each.bound_roof]] if each.bound_roof else []
        share = max(known, default=None)
        words = f"{each.case} {share_text(share)}" if share is not None else each.case
        found[each.case] = Look(words, PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)])
    return found


def draw_points(axes: Axes, points: Sequence[RooflinePoint], looks: Sequence[Look], drawn: Drawn) -> None:
    """Markers, solid where counted and hollow where declared, each with its label."""
    figure = figure_of(axes)
    for point, look in zip(points, looks, strict=True):
        marker(axes, point.intensity or 1.0, point.flops_per_s, point, look)
    at = [place_of(axes, each) for each in points]
    texts = [canvas.elided(look.name, LABEL, 330) for look in looks]
    sizes = [(canvas.width_of(text, LABEL) + 3, _HIGH) for text in texts]
    left, bottom, right, top = axes.get_window_extent().extents
    spots = place(at, sizes, (left + 2, bottom + 2, right - 2, top - 2), drawn.taken, drawn.lines)
    for text, spot, where, look in zip(texts, spots, at, looks, strict=True):
        drawn.taken.append(spot.box)
        start = (spot.box[0] + 1, (spot.box[1] + spot.box[3]) / 2)
        write(figure, start, text, size=LABEL, color=INK, ha="left", va="center_baseline", zorder=6, bbox=CLEAR)
        if spot.far:
            line(figure, where, spot.near(where), color=look.colour, linewidth=0.8, zorder=4)


def marker(axes: Axes, x: float, y: float, point: RooflinePoint, look: Look) -> None:
    """Solid: the profiler counted; hollow: the benchmark declares."""
    axes.plot(
        [x], [y], marker=look.shape, markersize=8, markerfacecolor=look.colour if point.source == "counters" else PAPER,
        markeredgecolor=look.colour, markeredgewidth=1.8, linestyle="none", zorder=5, clip_on=False,
    )  # fmt: skip


def _head(figure: Figure, roofline: Roofline, height: int) -> None:
    title = canvas.elided(f"Roofline · {roofline.device}", 17, WIDTH - 48, weight="bold")
    write(figure, (24, height - 34), title, size=17, weight="bold", va="baseline")
    shares = "The percentage is the share of the nearest roof, the measured one where there is one."
    write(figure, (24, height - 60), shares, size=LABEL, color=FAINT, va="baseline")
    hollow = "work declared by the benchmark"
    key = [(True, "work counted by the profiler"), (False, hollow)]
    present = {each.source for each in roofline.points}
    x = 32.0
    for solid, words in key:
        if ("counters" if solid else "declared") not in present:
            continue
        key_marker(figure, (x, height - 80), FAINT if solid else PAPER)
        write(figure, (x + 12, height - 80), words, size=LABEL, color=FAINT, va="center_baseline")
        x += 44 + canvas.width_of(words, LABEL)


def key_marker(figure: Figure, at: Point, face: str) -> None:
    """A marker beside words that explain it."""
    look = {"marker": "o", "markersize": 8, "markeredgecolor": FAINT, "markeredgewidth": 1.8, "linestyle": "none"}
    line(figure, at, markerfacecolor=face, **look)


def _strip(figure: Figure, roofline: Roofline, idle: Sequence[RooflinePoint], looks: dict[str, Look], top: float) -> None:
    """Cases without FLOPs have no intensity: their bytes per second, against the roofs of the memory."""
    height = _ROW * len(idle) + 6
    axes = canvas.axes_at(figure, _LEFT, top, _WIDE, height)
    memory = grouped([roof for roof in roofline.roofs if roof.kind == "dram"])
    most = max([*(each.bytes_per_s for each in idle), *(group[0].rate for group in memory)]) * 1.06
    axes.set_xlim(0, most)
    axes.set_ylim(-0.5, len(idle) - 0.5)
    axes.set_yticks([])
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    _bytes_ticks(axes, most)
    _memory_roofs(figure, axes, memory)
    for number, each in enumerate(reversed(idle)):
        look = looks[each.case]
        axes.plot([0, each.bytes_per_s], [number, number], color=RULE, linewidth=5, solid_capstyle="butt", zorder=1)
        marker(axes, each.bytes_per_s, number, each, look)
        words = canvas.elided(f"{look.name} · {units.rate(each.bytes_per_s, 'B/s')}", LABEL, _MARGIN - 40)
        right, up = axes.transData.transform((most, number))
        write(figure, (right + 14, up), words, size=LABEL, color=INK, va="center_baseline")
    high = figure.get_size_inches()[1] * DPI
    title = "Cases without FLOPs: bytes per second"
    write(figure, (_LEFT, high - top + 28), title, size=LABEL, color=INK, va="baseline")


def _bytes_ticks(axes: Axes, most: float) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator

    step = next(each for power in range(18) for digit in (1, 2, 5) if most / (each := digit * 10.0**power) <= 7)
    ticks = [number * step for number in range(int(most / step) + 1)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter(["0", *(units.rate(each, "B/s") for each in ticks[1:])]))


def _memory_roofs(figure: Figure, axes: Axes, memory: Sequence[Sequence[Roof]]) -> None:
    """Upright lines, each with its words above it."""
    texts = [f"{roof_text(group[0])} {sources(group)}" for group in memory]
    wide = max((canvas.width_of(text, SIZE) for text in texts), default=0) + 14
    _, _, right, top = axes.get_window_extent().extents
    at = [float(axes.transData.transform((group[0].rate, 0))[0]) for group in memory]
    for group, text, centre in zip(memory, texts, spread(at, wide, 0, right + 40), strict=True):
        axes.axvline(group[0].rate, color=INK, linewidth=1.2, linestyle=DASHES[group[0].source], zorder=2)
        write(figure, (centre, top + 12), text, size=SIZE, color=INK, ha="center", va="baseline")
