"""Numbers → text, in one place. Inside ratchet there are seconds, bytes and plain rates; these functions are the only exit."""

from __future__ import annotations

import math


def _three(value: float) -> str:
    """Three significant digits without an exponent: 0.0612, 5.3, 412."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def _four(value: float) -> str:
    if value == 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """0.0000612 → ``61.20 µs``: four significant digits, since the differences that matter are below one percent."""
    size = abs(seconds)
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if size < limit:
            return f"{_four(seconds * factor)} {unit}"
    return f"{_four(seconds)} s"


def wall(seconds: float) -> str:
    """A time that a person waits: ``48 s``, ``3 min 05 s``."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s"


def size(count: float) -> str:
    """Bytes in binary steps: ``60.0 MiB``."""
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(count) >= factor:
            return f"{_three(count / factor)} {unit}"
    return f"{count:.0f} B"


def rate(per_second: float, unit: str) -> str:
    """A rate in decimal steps: ``rate(4.3e12, "B/s")`` → ``4.30 TB/s``."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(per_second) >= factor:
            return f"{_three(per_second / factor)} {prefix}{unit}"
    return f"{_three(per_second)} {unit}"


def percent(fraction: float, digits: int = 0) -> str:
    """0.413 → ``41 %``."""
    return f"{fraction * 100:.{digits}f} %"


def change(ratio: float, digits: int = 2) -> str:
    """A ratio of times as a signed change: 1.034 → ``+3.40 %``; minus is faster."""
    value = (ratio - 1) * 100
    shown = f"{value:+.{digits}f}"
    if float(shown) == 0:
        shown = f"{0:.{digits}f}"
    return f"{shown.replace('-', '−')} %"
