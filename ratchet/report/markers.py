"""The first two lines of our comment: by one it is found again, the other says what it is about."""

from __future__ import annotations

import re

from ratchet.errors import UsageError

MARKER = "<!-- ratchet:report:{id} -->"
"""The first line, with the report's id."""
_RUN = "<!-- ratchet:run:{run_id}:{sha} -->"
_RUN_READ = re.compile(r"<!-- ratchet:run:([1-9][0-9]{0,18}):([0-9a-f]{40}(?:[0-9a-f]{24})?) -->")
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def marker(report_id: str) -> str:
    """The first line of a comment. Raises UsageError for an id that is no plain word."""
    if not _ID.fullmatch(report_id):
        raise UsageError("The id of a report holds letters, digits, _ . and - only, at most 64.", "Choose another id.")
    return MARKER.format(id=report_id)


def first_lines(report_id: str, run_id: int, head_sha: str) -> str:
    """Both, each with its end. Raises UsageError for an id that is no plain word."""
    return f"{marker(report_id)}\n{_RUN.format(run_id=run_id, sha=head_sha)}\n"


def run_id_of(body: str) -> int | None:
    """The run that one of our comments is about; None for any other text."""
    found = _second_line(body)
    return int(found[1]) if found else None


def sha_of(body: str) -> str | None:
    """The head that one of our comments is about; None for any other text."""
    found = _second_line(body)
    return found[2] if found else None


def _second_line(body: str) -> re.Match[str] | None:
    lines = body.replace("\r\n", "\n").split("\n", 2)
    return _RUN_READ.fullmatch(lines[1]) if len(lines) > 1 and lines[0].startswith("<!-- ratchet:report:") else None
