"""A figure that looks the same on every machine and every day, and its files.

Text may come from anybody (names of kernels, messages of a profiler's rules), so all of it goes through `write`, which never
reads it as mathematics and draws only what the font has.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ratchet.errors import PageError
from ratchet.records.files import save_bytes
from ratchet.untrusted import SENTENCE, clean

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

WIDTH = 1200
"""Pixels; 100 to the inch."""
DPI = 100
INK, FAINT, RULE, PAPER = "#1a1a1a", "#595959", "#d4d4d4", "#ffffff"
REFERENCE, HEAD = "#6b7785", "#0072b2"
"""Colours of the two sides: grey and blue differ in lightness too."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#8b4a8b", "#a67c00", "#4a4a4a")
"""Okabe and Ito's, for people who see colours differently; its light ones darkened for white paper."""
MARKERS = ("o", "s", "D", "^", "v", "P")
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 11.0,
    "svg.fonttype": "none",  # text stays text: smaller files, and a reader can search them
    "svg.hashsalt": "ratchet",
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "path.simplify": False,
    "text.hinting": "none",  # letters as wide as they are drawn in an SVG, and as `width_of` counts them
}


_FAMILIES = b"font-family: 'DejaVu Sans', 'Bitstream Vera Sans', Verdana, sans-serif"
"""Of the text in an SVG; the first that a reader has. All are about as wide."""


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Around everything that makes or writes a figure: our style, whatever the user's own settings are.

    Raises PageError where matplotlib is missing.
    """
    # Before the import: where the home folder is read-only, matplotlib takes a temporary one and would say so on stderr.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise PageError("No picture was drawn, because matplotlib is not installed.", "pip install 'ratchet[profile]'") from None
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        yield


def new_figure(height: int) -> Figure:
    """An empty figure, `WIDTH` × ``height`` pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in pixels, counted from the top left corner."""
    wide, high = figure.get_size_inches() * DPI
    return figure.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def write(figure: Figure, at: Sequence[float], text: object, limit: int = SENTENCE, **style: Any) -> Text:
    """Write one line literally, at so many pixels from the bottom left corner."""
    x, y = share(figure, at)
    return figure.text(x, y, drawable(text, limit), parse_math=False, **style)


def line(figure: Figure, *points: Sequence[float], **style: Any) -> None:
    """A line, or markers, at pixels from the bottom left corner; above everything that axes hold."""
    from matplotlib.lines import Line2D

    across, up = zip(*(share(figure, point) for point in points), strict=True)
    figure.add_artist(Line2D(across, up, transform=figure.transFigure, **style))


def share(figure: Figure, at: Sequence[float]) -> tuple[float, float]:
    """Pixels as shares of the figure, which stay true where a file has another resolution."""
    wide, high = figure.get_size_inches() * DPI
    return float(at[0] / wide), float(at[1] / high)


def drawable(text: object, limit: int = SENTENCE) -> str:
    """`clean`, with a box for every character that the font has not, since matplotlib warns of each."""
    known = _characters()
    return "".join(letter if ord(letter) in known else "□" for letter in clean(text, limit))


def pixels(artist: Artist) -> tuple[float, float, float, float]:
    """Left, bottom, right, top of what is drawn, in pixels from the bottom left corner."""
    box = artist.get_window_extent(_renderer(figure_of(artist)))
    return box.x0, box.y0, box.x1, box.y1


def figure_of(artist: Artist) -> Figure:
    """The figure that something is drawn in."""
    return cast("Figure", artist.figure)


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Pixels that a line takes, a little rounded up."""
    advances = _advances(weight)
    return sum(advances.get(ord(letter), 1.0) for letter in text) * size * DPI / 72 * 1.01


def wrapped(text: object, size: float, width: float, most: int) -> list[str]:
    """The text in lines of at most ``width`` pixels; what does not fit in ``most`` lines ends with an ellipsis."""
    lines: list[str] = []
    words = [piece for word in drawable(text, 1200).split() for piece in _pieces(word, size, width)]
    for word in words:
        if lines and width_of(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) > most:
        return [*lines[: most - 1], elided(f"{lines[most - 1]} {lines[most]}", size, width, at_end=True)]
    return lines


def elided(text: object, size: float, width: float, *, at_end: bool = False, weight: str = "normal") -> str:
    """One line of at most ``width`` pixels; a longer one loses its middle (of a name, both ends matter) or its end."""
    shown = drawable(text, 1200)
    if width_of(shown, size, weight) <= width:
        return shown
    low, high = 0, len(shown)
    while low < high:  # the most characters that fit
        middle = (low + high + 1) // 2
        fits = width_of(_cut(shown, middle, at_end=at_end), size, weight) <= width
        low, high = (middle, high) if fits else (low, middle - 1)
    return _cut(shown, low, at_end=at_end)


def write_files(figure: Figure, folder: Path, name: str) -> list[Path]:
    """``NAME.png`` and ``NAME.svg``, each whole or not at all. Raises OutputError where the folder or the disk refuses."""
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Creator": "ratchet", "Date": None}, facecolor=PAPER)
    text = svg.getvalue().replace(b"font-family: 'DejaVu Sans'", _FAMILIES)
    files = {folder / f"{name}.png": _png(figure), folder / f"{name}.svg": text}
    for path, content in files.items():
        save_bytes(path, content)
    return list(files)


def _png(figure: Figure) -> bytes:
    """In 256 colours, a third of the size: these pictures are lines, bars and letters."""
    from PIL import Image

    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor=PAPER)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _renderer(figure: Figure) -> Any:
    """Agg's, which knows how wide its letters are. (Its types do not say so.)"""
    canvas: Any = figure.canvas
    return canvas.get_renderer()


def _pieces(word: str, size: float, width: float) -> Iterator[str]:
    """A word too long for a line, in parts that fit."""
    while width_of(word, size) > width:
        most = max(count for count in range(1, len(word) + 1) if count == 1 or width_of(word[:count], size) <= width)
        yield word[:most]
        word = word[most:]
    if word:
        yield word


def _cut(text: str, count: int, *, at_end: bool) -> str:
    if at_end:
        return text[:count].rstrip() + "…"
    tail = count // 3
    return f"{text[: count - tail]}…{text[len(text) - tail :] if tail else ''}"


@functools.cache
def _advances(weight: str) -> dict[int, float]:
    """Code of a letter → its width over the size of the font. Asking the renderer for every line takes milliseconds each."""
    from matplotlib import ft2font
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight=weight)))
    names: Any = ft2font
    plain = names.LoadFlags.NO_SCALE if hasattr(names, "LoadFlags") else names.LOAD_NO_SCALE  # before matplotlib 3.10
    return {code: font.load_glyph(glyph, plain).horiAdvance / font.units_per_EM for code, glyph in font.get_charmap().items()}


@functools.cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())
