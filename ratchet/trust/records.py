"""A calibration of a machine, and the lines of ``results/soak/``, each a check of unchanged code or of code slowed on purpose.

`ratchet doctor soak` adds a line with `append_check` as soon as a check is decided.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from ratchet.core.errors import OutputError, RecordError
from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment, Telemetry
from ratchet.core.records.files import reading
from ratchet.core.records.run import Plan, Policy, Tree
from ratchet.core.records.verdict import Outcome


class CaseCalibration(Record):
    """One case of unchanged code against itself. Fractions: 0.002 is 0.2 %."""

    name: str
    pairs: Count
    spread: NotNegative
    """Standard deviation of the log ratio of one pair."""
    bias: float
    """Mean log ratio; its sign is the head's."""
    bias_error: NotNegative
    detectable_first: NotNegative | None
    """MDE of a case that takes the fewest pairs that can prove a change; None where a case takes fewer."""
    detectable_most: NotNegative | None
    """MDE of a case that takes every pair it may."""
    red: NotNegative
    """How often this case would be red, of checks drawn from these pairs."""
    caught: NotNegative
    """How often a slowdown a sixth beyond the gate would be red."""
    gate: Positive
    """The smallest gate that this case can hold."""
    holds: bool
    """Whether it can hold the configured gate."""


class Calibration(Record):
    """The result of one calibration, and whether the configured gate can be held here."""

    schema_version: Literal[1] = 1
    holds: bool
    gate: Positive
    """The smallest gate that every case can hold."""
    any_red: NotNegative
    """Share of checks of unchanged code, drawn from these pairs, that would be red."""
    checks: Count
    """How many were drawn."""
    biased: tuple[str, ...] = ()
    """Cases whose mean differs from none by more than chance: something favours a side."""
    unmeasured: tuple[str, ...] = ()
    """Cases that gave too few pairs to say anything."""
    cases: tuple[CaseCalibration, ...]
    policy: Policy
    plan: Plan
    environment: Environment
    code: Tree
    started_at: AwareDatetime
    wall_s: NotNegative
    command: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class SoakCase(Record):
    """The decision about one case, and the figures behind it, as in a `verdict.Comparison`."""

    name: str
    outcome: Outcome
    planted: NotNegative = 0.0
    """How much more work the head did, as a fraction."""
    reference_ms: Positive | None = None
    ratio: Positive | None = None
    low: Positive | None = None
    high: Positive | None = None
    spread: NotNegative | None = None
    detectable: Positive | None = None
    intensity: NotNegative | None = None
    """FLOPs for each byte. Only lines of earlier releases have it."""
    pairs: Count = 0
    outliers: Count = 0
    telemetry: Telemetry | None = None


class SoakCheck(Record):
    """A check of a commit with itself."""

    schema_version: Literal[1] = 1
    started_at: AwareDatetime
    wall_s: NotNegative
    environment: Environment
    policy: Policy
    code: Tree
    planted: NotNegative = 0.0
    """How much more work the head did in the cases that were slowed, as a fraction; 0: none was."""
    exit_code: Count
    """The exit code of `ratchet check`."""
    headline: str
    cases: tuple[SoakCase, ...]
    warnings: tuple[str, ...] = ()


def append_check(path: Path, check: SoakCheck) -> None:
    """Add a check to a file, which is created if needed, in one piece: a kill costs at most this line. Raises OutputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            cut = b"" if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else b"\n"  # after a kill, or a full disk
            line = cut + check.model_dump_json(exclude_none=True).encode() + b"\n"
            while line:  # a full disk takes a part of it, and refuses the rest
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}.", "Check its folder's permissions and the free space."
        ) from error


def load_checks(path: Path) -> list[SoakCheck]:
    """Return all checks of a file; a line that was cut off is left out. Raises RecordError for one that is wrong."""
    with reading(path):
        lines = path.read_bytes().split(b"\n")
    checks = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            checks.append(SoakCheck.model_validate_json(line.decode(errors="replace"), strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            if "EOF while parsing" in first["msg"]:  # cut off by a kill; the next line was begun anew
                continue
            field = ".".join(map(str, first["loc"]))
            message = f"{path}, line {number}: {field}{': ' if field else ''}{first['msg']}."
            raise RecordError(message, "Restore the file, or delete the line.") from None
    return checks
