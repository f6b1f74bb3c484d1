"""`CaseProfile` → what a report says of it: the findings in words, a table of figures, what could not be had, and the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ratchet import units, untrusted
from ratchet.judge.profile import matched
from ratchet.records.profile import Activity, CaseProfile, Finding, KernelProfile
from ratchet.report import words

FINDINGS = 3
"""So many are told in words."""
KERNELS = 3
"""Of one call, the longest first."""
TIMES = 6
"""Rows of a table of traced times."""


@dataclass(frozen=True)
class Row:
    """One figure of both sides, as text."""

    title: str
    reference: str
    head: str
    change: str


@dataclass(frozen=True)
class Table:
    """Figures of one kernel, or of the traced calls."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class _Figure:
    title: str
    text: Callable[[float], str]
    of: Callable[[KernelProfile], float | None]
    points: bool = False
    """A share: its change is a difference."""


def _percent(value: float) -> str:
    return units.percent(value / 100, 1)


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


def _plain(value: float) -> str:
    return f"{value:.2f}"


_FIGURES = (
    _Figure("Duration under the profiler", units.duration, lambda kernel: kernel.duration_s),
    _Figure("SM throughput", _percent, lambda kernel: kernel.sm_percent, points=True),
    _Figure("Memory throughput", _percent, lambda kernel: kernel.memory_percent, points=True),
    _Figure("DRAM throughput", _percent, lambda kernel: kernel.dram_percent, points=True),
    _Figure("DRAM bytes", units.size, lambda kernel: kernel.dram_bytes),
    _Figure("L1 hit rate", _percent, lambda kernel: kernel.l1_hit_percent, points=True),
    _Figure("L2 hit rate", _percent, lambda kernel: kernel.l2_hit_percent, points=True),
    _Figure("Coalesced", _percent, lambda kernel: kernel.coalesced_percent, points=True),
    _Figure("Sectors per load request", _plain, lambda kernel: kernel.load_sectors_per_request),
    _Figure("Achieved occupancy", _percent, lambda kernel: kernel.occupancy_percent, points=True),
    _Figure("Theoretical occupancy", _percent, lambda kernel: kernel.occupancy_limit_percent, points=True),
    _Figure("Registers per thread", _count, lambda kernel: kernel.registers),
    _Figure("Shared memory per block", units.size, lambda kernel: kernel.shared_bytes),
    _Figure("Spilled to local memory", units.size, lambda kernel: kernel.spill_bytes),
    _Figure("Bank conflicts", _count, lambda kernel: kernel.bank_conflicts),
    _Figure("Matrix units busy", _percent, lambda kernel: kernel.tensor_percent, points=True),
    _Figure("Warp instructions", _count, lambda kernel: kernel.instructions),
    _Figure("Waves", _plain, lambda kernel: kernel.waves),
)


def findings_of(profile: CaseProfile, most: int = FINDINGS) -> tuple[Finding, ...]:
    """The first findings, which say most of the change."""
    return profile.findings[:most]


def first_sentence(profile: CaseProfile) -> str:
    """What a person reads first: the likeliest cause; where nothing goes the way of the case, that, and what stands out."""
    if profile.head is None:
        return f"There is no profile of the head: {profile.failed.get('head', 'no profiler saw anything.')}"
    if profile.causes:
        return profile.causes[0].what
    standing = next((finding.what for finding in profile.findings if finding.effect is None), None)
    if profile.reference is None and standing is not None:
        return standing
    nothing = unexplained(profile) or "The profile shows nothing that stands out."
    return f"{nothing} What stands out in the head: {standing}" if standing else nothing


def unexplained(profile: CaseProfile) -> str:
    """The sentence that no difference goes the way of the case; empty where one does, or where there is nothing to compare."""
    if profile.head is None or profile.reference is None or profile.causes:
        return ""
    change = {"slower": "the slowdown", "faster": "the improvement"}.get(profile.direction or "", "a change")
    return f"The profiles show no difference that explains {change}."


def tables(profile: CaseProfile) -> tuple[Table, ...]:
    """The counters of the longest kernels; where there are none, the traced times."""
    pairs = matched(profile.head, profile.reference)
    if pairs:
        longest = sorted(pairs, key=lambda pair: -max(kernel.duration_s or 0.0 for kernel in pair if kernel))[:KERNELS]
        return tuple(_of_kernel(reference, head) for head, reference in longest)
    head, reference = (side.activity if side else None for side in (profile.head, profile.reference))
    return (_of_activity(head, reference),) if head or reference else ()


def profile_lines(profile: CaseProfile, results: str) -> Iterator[str]:
    """Plain text for a terminal or a log; ``results`` is how the folder is shown that the files are relative to."""
    yield f"Profile of {untrusted.log_line(profile.case, untrusted.CELL)}"
    if profile.findings and (nothing := unexplained(profile)):
        yield f"  {nothing}"
    for number, finding in enumerate(findings_of(profile), 1):
        yield f"  {number}. {untrusted.log_line(finding.what)}"
        yield f"     Why: {untrusted.log_line(finding.why)}"
        label = "Try: " if finding.needs_action else ""
        yield f"     {label}{untrusted.log_line(finding.advice)} ({finding.confidence} confidence)"
    if not profile.findings:
        yield f"  {untrusted.log_line(first_sentence(profile))}"
    for table in tables(profile):
        yield f"  {untrusted.log_line(table.title, untrusted.CELL)}"
        wide = [max(len(text) for text in column) for column in zip(*map(_cells, table.rows), strict=True)] if table.rows else []
        for title, reference, head, change in map(_cells, table.rows):
            yield f"    {title:<{wide[0]}}  {reference:>{wide[1]}}  {head:>{wide[2]}}  {change:>{wide[3]}}".rstrip()
    for side, why in profile.failed.items():
        yield f"  No profile of the {side}: {untrusted.log_line(why)}"
    for sentence in (*warnings(profile), *profile.steps_down):
        yield f"  note: {untrusted.log_line(sentence)}"
    for what, path in profile.files.items():
        yield f"  {untrusted.log_line(what)}: {untrusted.log_line(f'{results}/{path}')}"


def why_lines(profile: CaseProfile) -> list[str]:
    """For the end of a check: one line for the cause, and one where the profile is less than it could be."""
    name = untrusted.log_line(profile.case, untrusted.CELL)
    lines = [f"Why {name}: {untrusted.log_line(first_sentence(profile))}"]
    return [*lines, *(f"  | {name}: {untrusted.log_line(sentence)}" for sentence in profile.steps_down[:1])]


def warnings(profile: CaseProfile) -> tuple[str, ...]:
    """What the readers of both sides warn of, each once."""
    return tuple(dict.fromkeys(text for side in (profile.reference, profile.head) if side for text in side.warnings))


def _cells(row: Row) -> tuple[str, str, str, str]:
    return untrusted.log_line(row.title, 60), row.reference, row.head, row.change


def _of_kernel(reference: KernelProfile | None, head: KernelProfile | None) -> Table:
    rows = []
    for figure in _FIGURES:
        left, right = (figure.of(kernel) if kernel else None for kernel in (reference, head))
        if (left is not None or right is not None) and not (left == right == 0):
            rows.append(_row(figure.title, left, right, figure.text, points=figure.points))
    held = [kernel.occupancy_limiter if kernel else None for kernel in (reference, head)]
    if any(held):
        before, after = (untrusted.clean(one, 40) if one else words.NOTHING for one in held)
        rows.append(Row("Occupancy limited by", before, after, ""))
    kernel = head or reference
    return Table(kernel.function if kernel else "", tuple(rows))


def _of_activity(head: Activity | None, reference: Activity | None) -> Table:
    """Per call, since the sides may have been traced over different numbers of calls."""
    sides = (reference, head)
    names = dict.fromkeys(name for side in sides if side for name in side.kernels)
    longest = sorted(names, key=lambda name: -max(_a_call(side, side.kernels.get(name, 0.0)) for side in sides if side))
    rows = [_timed(name, [side.kernels.get(name) if side else None for side in sides], sides) for name in longest[:TIMES]]
    every = [sum(side.kernels.values()) if side else None for side in sides]
    if len(names) > 1:
        rows.insert(0, _timed("All together", every, sides))
    if any(side and side.launches for side in sides):
        before, after = (_a_call(side, side.launches) if side else None for side in sides)
        rows.append(_row("Launches", before, after, lambda value: f"{value:g}"))
    for title, values in (
        ("Copies", [side.copies_s if side else None for side in sides]),
        ("Device idle between kernels", [side.gaps_s if side else None for side in sides]),
        ("CPU time in allocation", [side.allocation_s if side else None for side in sides]),
    ):
        if any(values):
            rows.append(_timed(title, values, sides))
    return Table("Times of one call, as traced", tuple(rows))


def _timed(title: str, values: list[float | None], sides: tuple[Activity | None, ...]) -> Row:
    before, after = (
        None if value is None or side is None else _a_call(side, value) for value, side in zip(values, sides, strict=True)
    )
    return _row(title, before, after, units.duration)


def _a_call(side: Activity | None, value: float) -> float:
    return value / max(1, side.calls) if side else 0.0


def _row(title: str, before: float | None, after: float | None, text: Callable[[float], str], *, points: bool = False) -> Row:
    left, right = (words.NOTHING if value is None else text(value) for value in (before, after))
    return Row(title, left, right, _change(before, after, points=points))


def _change(before: float | None, after: float | None, *, points: bool) -> str:
    if before is None or after is None:
        return ""
    if points:
        return f"{after - before:+.1f} points".replace("-", "−")
    if before == after:
        return "="
    return units.change(after / before, 1) if before > 0 and after > 0 else ""
