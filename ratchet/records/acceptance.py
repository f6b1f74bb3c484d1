"""One regression of one case that a person with write access accepted, bound to one commit of a pull request.

It travels in a comment that ratchet wrote (`ratchet.judge.github.acceptance`), not in a file. Pure.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from ratchet.records.base import Record
from ratchet.records.baseline import Commit

LONGEST_CASE = 200
LONGEST_REASON = 500

Login = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?$")]
"""Name of an account on GitHub."""


class Acceptance(Record):
    """One accepted regression: by whom, why, and for which head. Another head needs another acceptance."""

    case: Annotated[str, Field(min_length=3, max_length=LONGEST_CASE)]
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    by: Login
    sha: Commit
    """The head of the pull request at the time."""
    comment: Annotated[int, Field(gt=0, lt=2**63)] | None
    """Id of the person's comment; None where it was done by a label."""
    at: AwareDatetime
