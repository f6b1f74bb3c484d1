"""Numbers → text, in one place. Inside ratchet there are seconds, bytes and plain rates; these functions are the only exit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence


def _significant(value: float, count: int) -> str:
    """Show ``count`` significant digits and no decimals beyond them: 0.0612, 5.30, 412."""
    if value == 0:
        return "0"
    scientific = f"{value:.{count - 1}e}"
    exponent = int(scientific.partition("e")[2])  # of the rounded value: 9.999 is 10.0, not 10.00
    if not -7 < exponent < 16:  # no measurement, but no reason to fill a page either
        return scientific
    return f"{value:.{max(0, count - 1 - exponent)}f}"


def _reaches(value: float, limit: float, count: int) -> bool:
    """Return whether ``value``, as it will be shown, is at least ``limit``: 999.97 µs is shown as 1.000 ms."""
    return float(f"{abs(value):.{count - 1}e}") >= limit


def duration(seconds: float) -> str:
    """Show seconds: 0.0000612 → ``61.20 µs``. Four digits, since the differences that matter are below one percent."""
    for factor, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if not _reaches(seconds * factor, 1000, 4):
            return f"{_significant(seconds * factor, 4)} {unit}"
    return f"{_significant(seconds, 4)} s"


def wall(seconds: float) -> str:
    """Show seconds that a person waits: ``48 s``, ``3 min 05 s``."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s"


def size(count: float) -> str:
    """Show bytes in binary steps: ``60.0 MiB``."""
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(count) * 1024 >= factor * 1023.5:  # 1023.7 KiB would be shown as 1024 KiB
            return f"{_significant(count / factor, 3)} {unit}"
    return f"{count:.0f} B"


def parse_size(value: object) -> int:
    """Read ``4000MB``, ``1.5 GB``, or bytes as a number, not as text; MB and MiB both are 2²⁰ bytes. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMG])i?B)?\s*", str(value))
    if not match or isinstance(value, bool) or (isinstance(value, str) and not match[2]):
        raise ValueError(f"{value!r} is not a size: write 4000MB")
    return int(float(match[1]) * {"K": 2**10, "M": 2**20, "G": 2**30, None: 1}[match[2]])


def rate(per_second: float, unit: str) -> str:
    """Show a rate in decimal steps: ``rate(4.3e12, "B/s")`` → ``4.30 TB/s``."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if _reaches(per_second / factor, 1, 3):
            return f"{_significant(per_second / factor, 3)} {prefix}{unit}"
    return f"{_significant(per_second, 3)} {unit}"


def percent(fraction: float, digits: int = 0) -> str:
    """Show a fraction: 0.413 → ``41 %``."""
    return f"{fraction * 100:z.{digits}f} %".replace("-", "−")


def threshold(fraction: float) -> str:
    """Show a chosen fraction, without zeros that nobody chose: 0.03 → ``3 %``, 0.005 → ``0.5 %``."""
    return f"{fraction * 100:.4g} %"


def change(ratio: float, digits: int = 2) -> str:
    """Show a ratio of times as a signed change: 1.034 → ``+3.40 %``; minus is faster. Of very large ones it says only that."""
    value = (ratio - 1) * 100
    if value > _BEYOND:
        return f">+{_BEYOND:.0f} %"
    value = max(value, -100.0)  # nothing takes less time than none
    sign = "+" if round(value, digits) > 0 else "z"  # which leaves a zero without any
    return f"{value:{sign}.{digits}f} %".replace("-", "−")


_BEYOND = 1e5
"""Changes in percent that are only said to be larger: a thousand times as slow is an interval without an end."""


def earned_digits(ratio: float, low: float, high: float, marks: Sequence[float]) -> int:
    """Return the decimals, of a change in percent, that an interval earns: its half width is 50 steps of the last one or less.

    As many more as it takes for each of the three to be shown on its own side of every mark: of no change and of the gate.
    """
    half = abs(high - low) / 2 * 100
    least = 0 if half >= 5 else 1 if half >= 0.5 else 2

    def side(value: float, mark: float) -> int:
        return (value > mark) - (value < mark)

    def tells(digits: int) -> bool:
        shown = [(value, round((value - 1) * 100, digits)) for value in (ratio, low, high)]
        return all(side(value, mark) == side(text, round((mark - 1) * 100, 4)) for value, text in shown for mark in marks)

    return next((digits for digits in range(least, _MOST_DIGITS) if tells(digits)), _MOST_DIGITS)


_MOST_DIGITS = 4


def interval(low: float, high: float, digits: int = 2) -> str:
    """Show two ratios of times as changes in percent: ``[+5.02, +5.38]``."""
    return f"[{change(low, digits).removesuffix(' %')}, {change(high, digits).removesuffix(' %')}]"


def estimate(ratio: float, low: float, high: float) -> tuple[str, str]:
    """Show a ratio of times and its interval in the digits that the interval earns: ``+5 %`` and ``[−2, +13]``."""
    digits = earned_digits(ratio, low, high, (1.0,))
    return change(ratio, digits), interval(low, high, digits)


def plural(count: int, noun: str) -> str:
    """Show a count with its noun: ``1 case``, ``3 cases``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 3, show: Callable[[str], str] = str) -> str:
    """Join the first names, each as ``show`` makes it: ``copy/a, copy/b, copy/c and 2 more``."""
    return ", ".join(map(show, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def first_of(sentences: Sequence[str]) -> str:
    """Show the first sentence, and how many more there are: ``It is empty. (and 2 more)``."""
    return sentences[0] + (f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else "")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Suggest the names that look most like one: ``Did you mean copy/a or copy/b?``; empty where none does."""
    near = difflib.get_close_matches(name, known, n=3)
    if near:
        likeness = difflib.SequenceMatcher(None, near[0], name).ratio()
        near = difflib.get_close_matches(name, near, n=3, cutoff=likeness - _ABOUT_AS_LIKE)
    return f"Did you mean {' or '.join(near)}?" if near else ""


_ABOUT_AS_LIKE = 0.1
"""Names that look so much less like one than the best are not what was meant."""


def lowered(sentence: str) -> str:
    """Make a sentence the end of another one: a word loses its capital, an abbreviation (SM, L2) keeps it."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence


FACTOR_FROM = 1.5
"""A change is shown as a factor too where one time is at least so many times the other."""


def slowdown(ratio: float) -> str:
    """Show a ratio of times in a sentence: 2.19 → ``+119 % (2.2×)``, 0.4 → ``−60 % (2.5× faster)``, 1.034 → ``+3.4 %``."""
    percents = abs(ratio - 1) * 100
    shown = change(ratio, 0 if percents >= 9.95 else 1)
    if ratio >= FACTOR_FROM:
        return f"{shown} ({times(ratio)})"
    return f"{shown} ({times(1 / ratio)} faster)" if 0 < ratio <= 1 / FACTOR_FROM else shown


def times(factor: float) -> str:
    """Show a factor: ``2.2×``, ``50×``."""
    return f"{factor:.1e}×" if factor >= 1e6 else f"{factor:.0f}×" if factor >= 9.95 else f"{factor:.1f}×"
