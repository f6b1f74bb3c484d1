"""What a runner makes of the lines that a step prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_COMMAND = re.compile(r"^\s*::([\w-]+)(?: [^:]*)?::(.*)$")
_LEGACY = re.compile(r"##\[([\w-]+)[^\]]*\](.*)$")


def obeyed(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The commands that a runner would obey: name and text. Between the two halves of a stop token it obeys none."""
    stopped = ""
    for line in lines:
        if stopped:
            if line.strip() == f"::{stopped}::":
                stopped = ""
            continue
        match = _COMMAND.match(line) or _LEGACY.search(line)
        if match and match[1] == "stop-commands":
            stopped = match[2].strip()
        elif match:
            yield match[1], match[2]
