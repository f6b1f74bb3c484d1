"""The answers of workers in experiments: see `ratchet.core.bench.messages`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet.core.bench.messages import Line
from ratchet.core.records import Count, Record
from ratchet.core.records.profile import Activity
from ratchet.lab.records.experiment import Equality, Floors, ProfileBaseline


class WrittenPart(Record):
    """One part of a result, as its bytes lie in the file of a probe; ``dtype`` is empty for what is no tensor."""

    place: Line
    dtype: Annotated[str, Field(pattern=r"^[a-z0-9_]{0,20}$")]
    shape: tuple[Count, ...]
    value: Line = ""


class StartProfile(Record):
    """The profile with which a session of experiments begins."""

    baseline: ProfileBaseline
    floors: Floors
    stages: Annotated[dict[Line, Activity], Field(max_length=64)] = {}


class Written(Record):
    """The layout of a result in a file."""

    parts: Annotated[tuple[WrittenPart, ...], Field(max_length=4096)]


class SameResult(Equality):
    """How near the reference's result is to one that the head wrote."""


class Captured(Record):
    """The answer to: can a stage be captured in a CUDA graph?"""

    verdict: Literal["safe", "breaks", "depends"]
    why: Line = ""
