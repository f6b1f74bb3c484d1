"""Output of code that is not ours, made safe to print: no control characters, no escapes, no endless lines."""

from __future__ import annotations

from ratchet.ansi import without_escapes


def clean(text: str, longest: int = 300) -> str:
    """One line without escapes and control characters, cut at ``longest`` characters."""
    line = "".join(c if c.isprintable() else " " for c in without_escapes(text)).strip()
    return line if len(line) <= longest else line[: longest - 1] + "…"


def last_lines(text: str, count: int) -> tuple[str, ...]:
    """The last lines of a text that say anything, made harmless."""
    lines = (clean(line) for line in text[-8192:].splitlines())
    return tuple(line for line in lines if line)[-count:]
