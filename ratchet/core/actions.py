"""Hand on what a job of GitHub Actions has to say: outputs and summary of its step.

`ratchet.core.command_result`, `ratchet.baseline.cli` and `ratchet.github.cli` write them at the end, to the files that
GITHUB_OUTPUT and GITHUB_STEP_SUMMARY name; outside a workflow nothing is written.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from ratchet.core.errors import OutputError

LARGEST_SUMMARY = 1_000_000
"""Bytes of one step's summary. GitHub accepts 1 MiB and shows nothing of a larger one."""


def write_outputs(values: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Set the step's outputs. A value may hold anything, for the line that ends it cannot be guessed. Raises OutputError."""
    pieces = []
    for name, value in values.items():
        end = f"end-{secrets.token_hex(16)}"
        pieces.append(f"{name}<<{end}\n{value}\n{end}\n")
    _append("GITHUB_OUTPUT", "".join(pieces), environ)


def append_summary(markdown: str, environ: Mapping[str, str]) -> None:
    """Add to the step's summary, cut to what GitHub accepts. Raises OutputError where the file cannot be written."""
    text = markdown.encode()[:LARGEST_SUMMARY].decode(errors="ignore")
    _append("GITHUB_STEP_SUMMARY", f"{text.rstrip()}\n", environ)


def _append(variable: str, text: str, environ: Mapping[str, str]) -> None:
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


def run_url(environ: Mapping[str, str]) -> str | None:
    """Return the address of the workflow run of this job; None outside a workflow."""
    parts = [environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else None
