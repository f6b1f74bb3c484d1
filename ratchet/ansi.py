"""Terminal escape sequences, taken out of text that is not ours: the one list of them, for logs and for reports."""

from __future__ import annotations

import re

_ANSI = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|\Z)"  # operating-system commands, such as links
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c|\Z)"  # device control and other strings
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequences, such as colours
    r"|\x1b[ -/]*[0-~]?"  # the rest
)


def without_escapes(text: str) -> str:
    """``text`` without colours, cursor movements, links and other commands to a terminal (ECMA-48)."""
    return _ANSI.sub("", text)
