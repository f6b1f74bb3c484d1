"""A `CaseProfile` as text: findings in words, tables of counters and traced times, what could not be measured, and the files.

Comment, Markdown report, terminal and pictures take their tables and sentences from here; ``ratchet profile --read`` prints all
of it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ratchet.common.launch_pairs import matched
from ratchet.core import units, untrusted
from ratchet.core.records.profile import Activity, CaseProfile, Finding, KernelProfile, Profile, ProfilerRule
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.report import words

FINDINGS = 3
"""Findings that are shown in words."""
KERNELS = 3
"""Tables of counters in a report: those of the longest kernels."""
TIMES = 6
"""Rows of a table of traced times."""
STALLS = 4
"""Stall reasons shown for a kernel of a report file: the longest of either side."""
RULES = 3
"""Sentences of Nsight Compute's own rules that are shown for a kernel."""
LONGEST_CAUSE = 100
"""Characters of a cause that a headline has room for."""


@dataclass(frozen=True)
class FigureRow:
    """One figure of both sides, as text."""

    title: str
    reference: str
    head: str
    change: str = ""


@dataclass(frozen=True)
class Table:
    """Figures of one kernel, or of the traced calls."""

    title: str
    rows: tuple[FigureRow, ...]


def _percent(value: float) -> str:
    return units.percent(value / 100, 1)


def _count(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.2f}".rstrip("0").rstrip(".")


_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Duration under the profiler", "duration_s", units.duration),
    ("SM throughput", "sm_percent", _percent),
    ("Memory throughput", "memory_percent", _percent),
    ("DRAM throughput", "dram_percent", _percent),
    ("DRAM bytes", "dram_bytes", units.size),
    ("DRAM read", "dram_read_bytes", units.size),
    ("DRAM written", "dram_write_bytes", units.size),
    ("L1 hit rate", "l1_hit_percent", _percent),
    ("L2 hit rate", "l2_hit_percent", _percent),
    ("Coalesced", "coalesced_percent", _percent),
    ("Sectors per load request", "load_sectors_per_request", _count),
    ("Sectors per store request", "store_sectors_per_request", _count),
    ("Achieved occupancy", "occupancy_percent", _percent),
    ("Theoretical occupancy", "occupancy_limit_percent", _percent),
    ("Registers per thread", "registers", _count),
    ("Shared memory per block", "shared_bytes", units.size),
    ("Spilled to local memory", "spill_bytes", units.size),
    ("Bank conflicts", "bank_conflicts", _count),
    ("Matrix units busy", "tensor_percent", _percent),
    ("Warp instructions", "instructions", _count),
    ("Waves", "waves", _count),
    ("Replay passes", "passes", _count),
)
"""Title, field of `KernelProfile`, and how its value is written."""
_EVERY = [field for _, field, _ in _FIGURES]
_REPORTED = [
    name for name in _EVERY if name not in ("dram_read_bytes", "dram_write_bytes", "store_sectors_per_request", "passes")
]
"""Those in comments and reports, where room is short."""


def headline(report: ReportRecord) -> str:
    """Return the first line that anyone reads; after the case that it ends with, the cause where a profile is sure enough."""
    sentence = report.headline.removesuffix(".")
    changes = {case.name: units.slowdown(case.comparison.ratio) for case in report.cases if case.comparison}
    for profile in report.profiles:
        named = sentence.endswith(f" {profile.case} {changes.get(profile.case)}")
        if named and profile.reference and profile.causes and profile.causes[0].confidence != "low":
            cause = re.split("[:;] ", profile.causes[0].what)[0].removesuffix(".")
            return f"{sentence}: {units.lowered(cause)}." if len(cause) <= LONGEST_CAUSE else report.headline
    return report.headline


def findings_of(profile: CaseProfile) -> tuple[Finding, ...]:
    """Return the first findings, which explain most of the change."""
    return profile.findings[:FINDINGS]


def first_sentence(profile: CaseProfile) -> str:
    """Return the likeliest cause. If nothing explains the change, say so, and name what stands out in the head."""
    if profile.head is None:
        return f"There is no profile of the head: {profile.failed.get('head', 'no profiler recorded anything.')}"
    if profile.causes:
        return profile.causes[0].what
    standing = next((finding.what for finding in profile.findings if finding.effect is None), None)
    if profile.reference is None and standing is not None:
        return standing
    nothing = unexplained(profile) or "Nothing stands out in the profile."
    return f"{nothing} What stands out in the head: {standing}" if standing else nothing


def unexplained(profile: CaseProfile) -> str:
    """Return the sentence that no difference explains the change; empty where one does, or where only one side was profiled."""
    if profile.head is None or profile.reference is None or profile.causes:
        return ""
    change = {"slower": "the slowdown", "faster": "the improvement"}.get(profile.direction or "", "a change")
    return f"The profiles show no difference that explains {change}."


def notes(profile: CaseProfile) -> tuple[str, ...]:
    """Return the warnings of both readers, each once, and what could not be measured."""
    warnings = dict.fromkeys(text for side in (profile.reference, profile.head) if side for text in side.warnings)
    return (*warnings, *profile.steps_down)


def tables(profile: CaseProfile) -> tuple[Table, ...]:
    """Return the counters of the longest kernels; where there are none, the traced times."""
    pairs = matched(profile.head, profile.reference)
    if pairs:
        longest = sorted(pairs, key=lambda pair: -max(kernel.duration_s or 0.0 for kernel in pair if kernel))[:KERNELS]
        return tuple(_of_kernel(head, reference) for head, reference in longest)
    head, reference = (side.activity if side else None for side in (profile.head, profile.reference))
    return (_of_activity(head, reference),) if head or reference else ()


def profile_lines(profile: CaseProfile, results: str) -> Iterator[str]:
    """Yield plain text for a terminal or a log. ``results``: the folder that the files are relative to, as it is shown."""
    yield f"Profile of {untrusted.log_line(profile.case, untrusted.CELL)}"
    if profile.findings and (nothing := unexplained(profile)):
        yield f"  {nothing}"
    for number, finding in enumerate(findings_of(profile), 1):
        yield from (f"  {line}" for line in _finding_lines(number, finding))
    if not profile.findings:
        yield f"  {untrusted.log_line(first_sentence(profile))}"
    for table in tables(profile):
        yield f"  {untrusted.log_line(table.title, untrusted.CELL)}"
        yield from words.aligned(map(_cells, table.rows), "<>>>", indent="    ")
    for side, why in profile.failed.items():
        yield f"  No profile of the {side}: {untrusted.log_line(why)}"
    for sentence in notes(profile):
        yield f"  note: {untrusted.log_line(sentence)}"
    for what, path in profile.files.items():
        yield f"  {untrusted.log_line(what)}: {untrusted.log_line(f'{results}/{path}')}"


def why_lines(profile: CaseProfile) -> list[str]:
    """Return the lines at the end of a check: one for the cause, and one where the profile is less than it could be."""
    name = untrusted.log_line(profile.case, untrusted.CELL)
    lines = [f"Why {name}: {untrusted.log_line(first_sentence(profile))}"]
    return [*lines, *(f"  | {name}: {untrusted.log_line(sentence)}" for sentence in profile.steps_down[:1])]


def read_lines(profile: CaseProfile) -> Iterator[str]:
    """Yield everything in one report file, or in two beside each other: the answer to ``ratchet profile --read``."""
    compared = profile.reference is not None
    for name, side in (("reference", profile.reference), ("head" if compared else "report", profile.head)):
        if side is not None:
            yield f"{name + ':':<11}{untrusted.log_line(_origin(side))}"
            yield from (f"{'':<11}warning: {untrusted.log_line(warning)}" for warning in side.warnings)
    for head, reference in matched(profile.head, profile.reference):
        yield ""
        yield from _kernel_lines(head, reference, compared=compared)
    if profile.findings:
        yield ""
        yield "What changed and what stands out:" if compared else "What stands out:"
        for number, finding in enumerate(profile.findings, 1):
            yield from _finding_lines(number, finding)
    for sentence in profile.steps_down:
        yield f"note: {untrusted.log_line(sentence)}"


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    yield f"{number}. {untrusted.log_line(finding.what)}"
    yield f"   Why: {untrusted.log_line(finding.why)}"
    label = "Try: " if finding.needs_action else ""
    yield f"   {label}{untrusted.log_line(finding.advice)} ({finding.confidence} confidence)"


def _cells(row: FigureRow) -> tuple[str, str, str, str]:
    return untrusted.log_line(row.title, 60), row.reference, row.head, row.change


# Tables: rows of counters and of traced times.


def _of_kernel(head: KernelProfile | None, reference: KernelProfile | None) -> Table:
    rows = [*counter_rows(head, reference, _REPORTED, zeros=False)]
    if any(kernel and kernel.occupancy_limiter for kernel in (head, reference)):
        rows.append(limiter_row(head, reference))
    kernel = head or reference
    return Table(kernel.function if kernel else "", tuple(rows))


def counter_rows(
    head: KernelProfile | None, reference: KernelProfile | None, fields: Collection[str], *, zeros: bool = True
) -> Iterator[FigureRow]:
    """Yield a row for each of these figures that a side has; without ``zeros``, only where it is not 0."""
    for title, field, text in _FIGURES:
        values = [getattr(kernel, field) if kernel else None for kernel in (reference, head)]
        if field in fields and values != [None, None] and (zeros or any(values)):
            yield _row(title, values, text)


def limiter_row(head: KernelProfile | None, reference: KernelProfile | None) -> FigureRow:
    """Return what limits the occupancy."""
    return _text_row("Occupancy limited by", [kernel.occupancy_limiter if kernel else None for kernel in (reference, head)])


def _of_activity(head: Activity | None, reference: Activity | None) -> Table:
    """Return times of one call, since the sides may have been traced over different numbers of calls."""
    times = [{name: s / max(1, side.calls) for name, s in side.kernels.items()} if side else {} for side in (reference, head)]
    longest = {name: max(side.get(name, 0.0) for side in times) for name in {**times[0], **times[1]}}
    names = sorted(longest, key=lambda name: -longest[name])
    rows = (
        [_row("All together", [sum(side.values()) if side else None for side in times], units.duration)] if len(names) > 1 else []
    )
    rows += [_row(name, [side.get(name) for side in times], units.duration) for name in names[:TIMES]]
    return Table("Times of one call, as traced", (*rows, *activity_rows(head, reference)))


def activity_rows(head: Activity | None, reference: Activity | None) -> Iterator[FigureRow]:
    """Yield launches, gaps and copies of one call, as far as a side has any."""
    figures: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("Launches", "launches", "{:g}".format),
        ("Copies", "copies_s", units.duration),
        ("Pageable copies", "pageable_copies", "{:g}".format),
        ("Device idle between kernels", "gaps_s", units.duration),
        ("CPU time in allocation", "allocation_s", units.duration),
    )
    for title, field, text in figures:
        totals = [getattr(side, field) if side else None for side in (reference, head)]
        if any(totals):
            calls = [max(1, side.calls) if side else 1 for side in (reference, head)]
            yield _row(title, [total and total / count for total, count in zip(totals, calls, strict=True)], text)


def _row(title: str, values: Sequence[float | None], text: Callable[[float], str]) -> FigureRow:
    """Format one figure. ``values``: of the reference and of the head, in this order."""
    before, after = values
    left, right = (words.NOTHING if value is None else text(value) for value in values)
    change = ""
    if before is not None and after is not None:
        if before == after:
            change = "="
        elif text is _percent:  # a share: its change is a difference
            change = f"{after - before:+.1f} points".replace("-", "−")
        elif before > 0 and after > 0:
            change = units.change(after / before, 1)
    return FigureRow(title, left, right, change)


def _text_row(title: str, values: Sequence[str | None]) -> FigureRow:
    left, right = (untrusted.log_line(text, 40) if text else words.NOTHING for text in values)
    return FigureRow(title, left, right, "" if words.NOTHING in (left, right) else "=" if left == right else "changed")


# One kernel of a report file, for ``ratchet profile --read``.


def _kernel_lines(head: KernelProfile | None, reference: KernelProfile | None, *, compared: bool) -> Iterator[str]:
    """Yield the name of one launch, and a row for each figure that either side has."""
    one = next(kernel for kernel in (head, reference) if kernel)
    yield f"kernel {untrusted.log_line(one.name, 240)}"
    both = head is not None and reference is not None
    if compared and not both:
        yield f"  only in the {'head' if head else 'reference'}"
    rows = [row for row in _rows(head, reference) if (row.reference, row.head) != (words.NOTHING, words.NOTHING)]
    if both:
        cells = [("", "reference", "head", "change"), *((row.title, row.reference, row.head, row.change) for row in rows)]
        yield from words.aligned(cells, "<>>>", indent="  ")
    else:
        yield from words.aligned([(row.title, row.head if head else row.reference) for row in rows], "<>", indent="  ")
    yield from (f"  ncu: {_rule_line(rule)}" for rule in one.rules[:RULES])


def _rows(head: KernelProfile | None, reference: KernelProfile | None) -> Iterator[FigureRow]:
    sides = (reference, head)
    for what in ("grid", "block"):
        extents = [getattr(side, what) if side else None for side in sides]
        yield _text_row(what.capitalize(), [" × ".join(map(str, extent)) if extent else None for extent in extents])
    yield from counter_rows(head, reference, _EVERY)
    yield limiter_row(head, reference)
    for precision in dict.fromkeys(name for side in sides if side for name, count in side.flops.items() if count):
        counts = [side.flops.get(precision) if side else None for side in sides]
        yield _row(f"Operations, {precision.replace('_', ' ')}", counts, lambda count: units.rate(count, "FLOP"))
    longest: dict[str, float] = {}
    for side in sides:
        for reason, cycles in side.stalls.items() if side else ():
            longest[reason] = max(cycles, longest.get(reason, 0.0))
    for reason in sorted(longest, key=lambda name: -longest[name])[:STALLS]:
        title = f"Stall: {untrusted.log_line(reason.replace('_', ' '), 40)}"
        yield _row(title, [side.stalls.get(reason) if side else None for side in sides], lambda cycles: f"{cycles:.1f} cycles")


def _origin(side: Profile) -> str:
    chip = f"{side.gpu or 'an unnamed GPU'}{f' ({side.sm_count} SMs)' if side.sm_count else ''}"
    tool = f"Nsight Compute {side.tool_version}" if side.tool_version else "Nsight Compute"
    return f"{chip}, {tool}, {units.plural(len(side.kernels), 'kernel')}"


def _rule_line(rule: ProfilerRule) -> str:
    estimate = ""
    if rule.speedup_percent is not None:
        part = "" if rule.scope == "global" else " of its part"
        estimate = f" (estimated gain {units.percent(rule.speedup_percent / 100)}{part})"
    return f"{untrusted.log_line(rule.title or rule.name, 60)}{estimate}: {untrusted.log_line(rule.message)}"
