"""Hand on what a step of GitHub Actions has to say, to the files that variables name; outside a workflow nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ratchet.core.errors import OutputError

LARGEST_SUMMARY = 1_000_000
"""Bytes of one step's summary. GitHub accepts 1 MiB and shows nothing of a larger one."""


def append_summary(markdown: str, environ: Mapping[str, str]) -> None:
    """Add to the step's summary, cut to what GitHub accepts. Raises OutputError where the file cannot be written."""
    text = markdown.encode()[:LARGEST_SUMMARY].decode(errors="ignore")
    append_to("GITHUB_STEP_SUMMARY", f"{text.rstrip()}\n", environ)


def append_to(variable: str, text: str, environ: Mapping[str, str]) -> None:
    """Add to the file that a variable such as GITHUB_OUTPUT names. Raises OutputError where it cannot be written."""
    place = environ.get(variable)
    if not place or not text:
        return
    try:
        with Path(place).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        raise OutputError(
            f"{variable} ({place}) cannot be written: {error.strerror}.", f"Free some space, or unset {variable}; then run again."
        ) from None
