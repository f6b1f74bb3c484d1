"""Report files that were read → plain text: every kernel with its figures, of one file or of two beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ratchet import units, untrusted
from ratchet.records.profile import CaseProfile, Finding, KernelProfile, Profile, Rule
from ratchet.report import words

Pair = tuple[KernelProfile | None, KernelProfile | None]
"""Head and reference."""
STALLS = 4
"""Reasons to wait, the longest of either side."""
RULES = 3
"""Sentences of Nsight Compute itself."""


@dataclass(frozen=True)
class _Figure:
    title: str
    value: Callable[[KernelProfile], float | None]
    text: Callable[[float], str]
    points: bool = False
    """Percent of something: its change is a difference."""


def _percent(value: float) -> str:
    return units.percent(value / 100, 1)


def _plain(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _share(title: str, value: Callable[[KernelProfile], float | None]) -> _Figure:
    return _Figure(title, value, _percent, points=True)


_FIGURES = (
    _Figure("duration under the profiler", lambda kernel: kernel.duration_s, units.duration),
    _share("SM throughput", lambda kernel: kernel.sm_percent),
    _share("memory throughput", lambda kernel: kernel.memory_percent),
    _share("DRAM throughput", lambda kernel: kernel.dram_percent),
    _Figure("DRAM read", lambda kernel: kernel.dram_read_bytes, units.size),
    _Figure("DRAM written", lambda kernel: kernel.dram_write_bytes, units.size),
    _share("L1 hit rate", lambda kernel: kernel.l1_hit_percent),
    _share("L2 hit rate", lambda kernel: kernel.l2_hit_percent),
    _share("coalesced", lambda kernel: kernel.coalesced_percent),
    _Figure("sectors per load request", lambda kernel: kernel.load_sectors_per_request, _plain),
    _Figure("sectors per store request", lambda kernel: kernel.store_sectors_per_request, _plain),
    _share("achieved occupancy", lambda kernel: kernel.occupancy_percent),
    _share("theoretical occupancy", lambda kernel: kernel.occupancy_limit_percent),
    _Figure("registers per thread", lambda kernel: kernel.registers, _plain),
    _Figure("shared memory per block", lambda kernel: kernel.shared_bytes, units.size),
    _Figure("spilled to local memory", lambda kernel: kernel.spill_bytes, units.size),
    _Figure("bank conflicts", lambda kernel: kernel.bank_conflicts, _plain),
    _share("matrix units busy", lambda kernel: kernel.tensor_percent),
    _Figure("warp instructions", lambda kernel: kernel.instructions, _plain),
    _Figure("waves", lambda kernel: kernel.waves, _plain),
    _Figure("replay passes", lambda kernel: kernel.passes, _plain),
)


def read_lines(profile: CaseProfile, pairs: Sequence[Pair]) -> Iterator[str]:
    """The whole answer to ``ratchet profile --read``; ``pairs`` are the launches of both sides in their order."""
    compared = profile.reference is not None
    for name, side in (("reference", profile.reference), ("head" if compared else "report", profile.head)):
        if side is not None:
            yield f"{name + ':':<11}{untrusted.log_line(_origin(side))}"
            yield from (f"{'':<11}warning: {untrusted.log_line(warning)}" for warning in side.warnings)
    for head, reference in pairs:
        yield ""
        yield from kernel_lines(head, reference, compared=compared)
    if profile.findings:
        yield ""
        yield "What changed and what stands out:" if compared else "What stands out:"
        for number, finding in enumerate(profile.findings, 1):
            yield from _finding_lines(number, finding)
    for sentence in profile.steps_down:
        yield f"note: {untrusted.log_line(sentence)}"


def kernel_lines(head: KernelProfile | None, reference: KernelProfile | None, *, compared: bool) -> Iterator[str]:
    """One launch: what it is, and a row for each figure that either side has."""
    one = head or reference
    if one is None:
        return
    yield f"kernel {untrusted.log_line(one.name, 240)}"
    if compared and head is None:
        yield "  only in the reference"
    elif compared and reference is None:
        yield "  only in the head"
    table = [row for row in _rows(head, reference) if any(cell != words.NOTHING for cell in row[1:3])]
    columns = (0, 1, 2, 3) if head and reference else (0, 2) if head else (0, 1)
    if head and reference:
        table.insert(0, ("", "reference", "head", "change"))
    wide = [max(len(row[column]) for row in table) for column in columns] if table else []
    for row in table:
        first, *rest = (row[column] for column in columns)
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, wide[1:], strict=True)]
        yield "  ".join(["", f"{first:<{wide[0]}}", *cells]).rstrip()
    yield from (f"  ncu: {_rule_line(rule)}" for rule in one.rules[:RULES])


def _rows(head: KernelProfile | None, reference: KernelProfile | None) -> Iterator[tuple[str, str, str, str]]:
    sides = (reference, head)
    for what in ("grid", "block"):
        yield _in_words(what, [_extent(getattr(side, what)) if side else None for side in sides])
    for figure in _FIGURES:
        yield _row(figure, sides)
    yield _in_words("occupancy limited by", [side.occupancy_limiter if side else None for side in sides])
    for precision in dict.fromkeys(name for side in sides if side for name, count in side.flops.items() if count):
        yield _row(_Figure(f"operations, {precision.replace('_', ' ')}", _of(precision, "flops"), _operations), sides)
    reasons = {name: 0.0 for side in sides if side for name in side.stalls}
    for name in reasons:
        reasons[name] = max(side.stalls.get(name, 0.0) for side in sides if side)
    for name in sorted(reasons, key=lambda each: -reasons[each])[:STALLS]:
        title = f"stall: {untrusted.log_line(name.replace('_', ' '), 40)}"
        yield _row(_Figure(title, _of(name, "stalls"), lambda cycles: f"{cycles:.1f} cycles"), sides)


def _row(figure: _Figure, sides: tuple[KernelProfile | None, KernelProfile | None]) -> tuple[str, str, str, str]:
    before, after = (figure.value(side) if side else None for side in sides)
    shown = [words.NOTHING if value is None else figure.text(value) for value in (before, after)]
    return figure.title, shown[0], shown[1], _change(before, after, points=figure.points)


def _change(before: float | None, after: float | None, *, points: bool) -> str:
    if before is None or after is None or before == after:
        return ""
    if points:
        return f"{after - before:+.1f} points".replace("-", "−")
    return units.change(after / before, 1) if before > 0 and after > 0 else ""


def _in_words(title: str, texts: list[str | None]) -> tuple[str, str, str, str]:
    before, after = (untrusted.log_line(text, 40) if text else words.NOTHING for text in texts)
    return title, before, after, "" if words.NOTHING in (before, after) or before == after else "changed"


def _of(name: str, field: str) -> Callable[[KernelProfile], float | None]:
    def value(kernel: KernelProfile) -> float | None:
        found: dict[str, float] = getattr(kernel, field)
        return found.get(name)

    return value


def _operations(count: float) -> str:
    return units.rate(count, "FLOP")


def _extent(extent: tuple[int, int, int] | None) -> str | None:
    return None if extent is None else " × ".join(str(each) for each in extent)


def _origin(side: Profile) -> str:
    chip = f"{side.gpu or 'an unnamed GPU'}{f' ({side.sm_count} SMs)' if side.sm_count else ''}"
    tool = f"Nsight Compute {side.tool_version}" if side.tool_version else "Nsight Compute"
    count = len(side.kernels)
    return f"{chip}, {tool}, {count} kernel{'' if count == 1 else 's'}"


def _rule_line(rule: Rule) -> str:
    estimate = ""
    if rule.speedup_percent is not None:
        part = "" if rule.scope == "global" else " of its part"
        estimate = f" (estimated gain {units.percent(rule.speedup_percent / 100)}{part})"
    title = f"{untrusted.log_line(rule.title or rule.name, 60)}{estimate}: "
    return f"{title}{untrusted.log_line(rule.message)}"


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    yield f"{number}. {untrusted.log_line(finding.what)}"
    yield f"   Why: {untrusted.log_line(finding.why)}"
    label = "Try: " if finding.needs_action else ""
    yield f"   {label}{untrusted.log_line(finding.advice)} ({finding.confidence} confidence)"
