"""The answers of workers in experiments and evaluations: see `ratchet.core.bench.messages`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet.core.bench.messages import Bytes, Line
from ratchet.core.records import Count, NotNegative, Record
from ratchet.lab.records.experiment import Equality, Floors, ProfileBaseline


class WrittenPart(Record):
    """One part of a result, as its bytes lie in the file of a probe; ``dtype`` is empty for what is no tensor."""

    place: Line
    dtype: Annotated[str, Field(pattern=r"^[a-z0-9_]{0,20}$")]
    shape: tuple[Count, ...]
    value: Line = ""


class Probed(Record):
    """The layout of a candidate's results, which it wrote to a file."""

    parts: Annotated[tuple[WrittenPart, ...], Field(max_length=256)]
    peak_bytes: Bytes
    aliases: bool


class Compared(Record):
    """How far a candidate's results are from the baseline's, by the baseline's process."""

    peak_bytes: Bytes
    output_bytes: Bytes
    """Bytes of results that are not memory of an argument: at least these are written."""
    problem: Line = ""
    """``rule: what is wrong``."""
    skipped: Line = ""
    largest: float | None = None
    error: NotNegative | None = None
    baseline_error: NotNegative | None = None


class StartProfile(Record):
    """The profile with which a session of experiments begins."""

    baseline: ProfileBaseline
    floors: Floors


class Written(Record):
    """The layout of a result in a file."""

    parts: Annotated[tuple[WrittenPart, ...], Field(max_length=4096)]


class SameResult(Equality):
    """How near the reference's result is to one that the head wrote."""


class Captured(Record):
    """The answer to: can a stage be captured in a CUDA graph?"""

    verdict: Literal["safe", "breaks", "depends"]
    why: Line = ""
