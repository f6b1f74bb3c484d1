"""Advice on a trace: findings, the time that each costs, and the checklist of ten questions.

`ratchet.explain.advice` makes it, `ratchet advise --json` prints it. Pure.
"""

from __future__ import annotations

from typing import Literal

from ratchet.common.records import ChecklistAnswer
from ratchet.core.records import Count, NotNegative, Record
from ratchet.core.records.profile import Category


class Where(Record):
    """A place in the user's code."""

    file: str
    line: Count
    is_exact: bool
    """Whether the line is that of the call; otherwise the trace only has the first line of the function."""
    function: str
    call: str = ""


class AdviceFinding(Record):
    """One antipattern, and what it costs."""

    pattern: str
    category: Category
    where: Where | None = None
    """None where the trace has no stacks."""
    times: Count
    """How often it happens in the steady part."""
    lost_us: NotNegative
    share: NotNegative
    """Share of the steady part."""
    what: str
    """One sentence with the figures."""
    do: str
    gain: str
    """The gain that can be expected, and of what."""
    quick_win: str | None = None
    """The quick win that shows it, by its name."""
    quick_win_case: str | None = None
    """What `ratchet variants --quickwins` calls it."""


class Advice(Record):
    """The findings in a trace, and the answers to the checklist."""

    schema_version: Literal[1] = 1
    source: str
    gpu: str = ""
    steady_us: NotNegative
    """The part of the trace that repeats, without its first repetitions."""
    traced_us: NotNegative
    gpu_busy: NotNegative | None = None
    """Share of the steady part; None where the trace has no GPU."""
    floor: NotNegative
    """The smallest share that is a finding."""
    findings: tuple[AdviceFinding, ...] = ()
    checklist: tuple[ChecklistAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
