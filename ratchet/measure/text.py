"""Output of code that is not ours, made safe to print: no control characters, no escapes, no endless lines."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


def clean(text: str, longest: int = 300) -> str:
    """One line without escapes and control characters, cut at ``longest`` characters."""
    line = "".join(c if c.isprintable() else " " for c in _ESCAPE.sub("", text)).strip()
    return line if len(line) <= longest else line[: longest - 1] + "…"
