"""Look of all pictures, text that fits, and files that are the same on every machine and every day.

Used by the tools that draw. `drawing` sets matplotlib's settings for a while, and `write_files` draws a PNG and an SVG.
A picture is a column of sections. It is narrow and its letters are large, so that a phone shows them in a readable size.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import io
import logging
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ratchet.core.errors import PageError
from ratchet.core.records.files import save_bytes
from ratchet.core.untrusted import clean

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

WIDTH, DPI = 6.0, 200
"""Inches, and pixels per inch: 1200 pixels. On a phone, 400 pixels wide, letters of 9 points are 8 pixels high."""
SMALL = 8.5
"""Points of the smallest text."""
MARGIN = 0.12
"""Inches left of and right of everything."""
ROOM = (WIDTH - 2 * MARGIN) * 72
"""Points that a line of text may take."""
INK, GREY, RULE, PAPER = "#1a1a1a", "#595959", "#d4d4d4", "#ffffff"
REFERENCE, HEAD = "#5c6874", "#0072b2"
"""Colours of the two sides: grey and blue differ in lightness too, and both are dark enough for text."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#8b4a8b", "#a67c00", "#4a4a4a")
"""Okabe and Ito's, for people who see colours differently; its light ones darkened for white paper."""
_LABEL = 125
"""Points that the label of a bar may take."""
_FONT = "DejaVu Sans"
_STYLE: dict[str, Any] = {
    "font.family": [_FONT],  # comes with matplotlib
    "font.size": 9,
    "text.parse_math": False,  # names of kernels come from anybody: a dollar sign is a dollar sign
    "text.hinting": "none",  # letters as wide as they are drawn in an SVG, and as `width_of` counts them
    "text.color": INK,
    "svg.fonttype": "none",  # text stays text: smaller files, and a reader can search them
    "svg.hashsalt": "ratchet",
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.labelsize": SMALL,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": MARGIN,
    "path.simplify": False,
}
_FAMILIES = b"'DejaVu Sans', 'Bitstream Vera Sans', Verdana, sans-serif"
"""Fonts of an SVG; a reader uses the first one that is installed. All are about as wide."""

_DARK = b"<style>@media (prefers-color-scheme: dark) { svg { filter: invert(.94) hue-rotate(180deg) } }</style>\n"
"""Where a reader's screen is dark, so is an SVG, and its colours stay what they are."""


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Set our style around everything that makes or writes a figure, whatever the user's own settings are.

    Raises PageError where matplotlib is missing.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where the home folder is read-only, it says so on import
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise PageError(
            "No picture was drawn, because matplotlib is not installed.", "pip install 'gpu-ratchet[profile]'"
        ) from None
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        yield


FigureSection = tuple[float, Callable[["SubFigure"], object]]
"""A part of a picture, as wide as the picture: its height in inches, and what draws it."""


def stacked(sections: Sequence[FigureSection]) -> Figure:
    """Make a figure of sections, from top to bottom. Call it within `drawing`, as everything that draws."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [height for height, _ in sections]
    figure = Figure(figsize=(WIDTH, sum(heights)), dpi=DPI, facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(sections), 1, height_ratios=heights, hspace=0, squeeze=False)
    for part, (_, draw) in zip(parts[:, 0], sections, strict=True):
        draw(part)
    return figure


@dataclass(frozen=True)
class Font:
    """Look of text."""

    points: float
    colour: str = INK
    weight: str = "normal"


TITLE, HEADING, STRONG = Font(14, weight="bold"), Font(11, weight="bold"), Font(9, weight="bold")
BODY, FAINT, NOTE = Font(9), Font(9, GREY), Font(SMALL, GREY)


@dataclass(frozen=True)
class TextLine:
    """One line of text that fits the width of a picture."""

    text: str
    font: Font


def lines_of(text: object, font: Font = BODY, most: int = 3) -> list[TextLine]:
    """Break a text into at most ``most`` lines."""
    return [TextLine(line, font) for line in wrapped(text, font.points, ROOM, most, font.weight)]


def text_section(lines: Sequence[TextLine], above: float = 0.06) -> FigureSection:
    """Put lines below each other, with ``above`` inches of white before the first."""
    heights = [1.4 * line.font.points / 72 for line in lines]
    whole = above + sum(heights)

    def draw(part: SubFigure) -> None:
        top = above
        for line, height in zip(lines, heights, strict=True):
            font, middle = line.font, 1 - (top + height / 2) / whole
            part.text(MARGIN / WIDTH, middle, line.text, size=font.points, color=font.colour, weight=font.weight, va="center")
            top += height

    return whole, draw


def legend_section(handles: Sequence[Artist]) -> FigureSection:
    """Explain marks and lines by their labels, in two columns where the labels are short enough."""
    labels = [shortened(str(handle.get_label()), SMALL, ROOM - 36) for handle in handles]
    columns = 2 if all(width_of(label, SMALL) < ROOM / 2 - 36 for label in labels) else 1
    height = math.ceil(len(labels) / columns) * 1.55 * SMALL / 72 + 0.1

    def draw(part: SubFigure) -> None:
        part.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(MARGIN / WIDTH, 1 - 0.06 / height), ncols=columns, columnspacing=2,
            frameon=False, fontsize=SMALL, borderaxespad=0, borderpad=0, handlelength=2.4,
        )  # fmt: skip

    return height, draw


def bar_axes(axes: Axes, labels: Sequence[str]) -> None:
    """Name the rows of a bar chart, from the top, and hide ticks and frame. The bars of all sections begin at one place."""
    shown = ["\n".join(wrapped(shortened(label, SMALL, 1.7 * _LABEL), SMALL, _LABEL, 2)) for label in labels]
    axes.set_yticks(range(len(labels)), shown, color=INK, ha="left", linespacing=1.0)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(length=0, pad=_LABEL + 6)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def drawable(text: object, limit: int) -> str:
    """Clean a text, with a box for every character that the font does not have, because matplotlib warns of each."""
    known = _characters()
    return "".join(letter if ord(letter) in known else "□" for letter in clean(text, limit))


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Measure how many points wide a line is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=_FONT, size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def wrapped(text: object, size: float, width: float, most: int, weight: str = "normal") -> list[str]:
    """Break a text into lines of at most ``width`` points; the last of ``most`` ends with an ellipsis where text is left out."""
    shown = drawable(text, 1200)

    def lines_of_columns(columns: int) -> list[str]:
        return textwrap.wrap(shown, columns, max_lines=most, placeholder="…")

    def is_wide(columns: int) -> bool:
        return any(width_of(line, size, weight) > width for line in lines_of_columns(columns))

    possible = range(1, int(2.5 * width / size) + 1)  # the narrowest letters
    return lines_of_columns(max(1, bisect.bisect_right(possible, False, key=is_wide)))


def shortened(text: object, size: float, width: float) -> str:
    """Shorten a text to one line of at most ``width`` points. It loses its middle, because both ends of a name matter."""
    shown = drawable(text, 1200)

    def with_letters(count: int) -> str:
        tail = count // 3
        return shown if count == len(shown) else f"{shown[: count - tail]}…{shown[len(shown) - tail :]}"

    fitting = bisect.bisect_right(range(1, len(shown) + 1), width, key=lambda count: width_of(with_letters(count), size))
    return with_letters(fitting)


@drawing()
def write_files(draw: Callable[[], Figure], folder: Path, name: str) -> list[Path]:
    """Draw ``NAME.png``, 1200 pixels wide, and ``NAME.svg``, and return their paths. Each is written whole or not at all.

    Raises PageError where matplotlib is missing, OutputError where the folder or the disk refuses.
    """
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.transforms import Bbox
    from PIL import Image

    figure = draw()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # everything has its place now
    for part in figure.subfigs:  # the last digits of the places depend on addresses of objects, and so would the files
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(6))
        for axes in part.axes:
            axes.set_position(Bbox(axes.get_position().get_points().round(6)))
    svg, packed = io.BytesIO(), io.BytesIO()
    lines: Any = FigureCanvasSVG(figure)  # Any: matplotlib gives these methods no types
    lines.print_svg(svg, metadata={"Creator": "ratchet", "Date": None})  # `savefig` would draw twice
    figure.set_dpi(DPI)  # an SVG has 72 dots per inch
    dots: Any = FigureCanvasAgg(figure)
    dots.draw()
    image = Image.fromarray(np.asarray(dots.buffer_rgba())).convert("RGB")
    # 256 colours are enough for lines, bars and letters, and take a third of the bytes.
    image.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    text = svg.getvalue().replace(b"'DejaVu Sans'", _FAMILIES).replace(b"</svg>", _DARK + b"</svg>")
    files = {folder / f"{name}.png": packed.getvalue(), folder / f"{name}.svg": text}
    for path, content in files.items():
        save_bytes(path, content)
    return list(files)


@functools.cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(_FONT)).get_charmap())
