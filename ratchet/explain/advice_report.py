"""Text about antipatterns, for the terminal: findings, the costliest first, then the checklist."""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.core import units
from ratchet.core.untrusted import clean
from ratchet.explain.records import Advice, Where

_SCOPES = {
    "<module>": "the script",
    "<lambda>": "a lambda",
    **dict.fromkeys(("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"), "a comprehension"),
}
"""Python's names of functions that have none."""


def advice_lines(advice: Advice) -> Iterator[str]:
    """Yield the lines of a terminal or a log."""
    gpu = f", {clean(advice.gpu)}" if advice.gpu else ""
    busy = f", GPU busy {units.percent(advice.gpu_busy)}" if advice.gpu_busy is not None else ""
    yield f"{clean(advice.source)}: steady part {units.duration(advice.steady_us * 1e-6)}{busy}{gpu}."
    for number, finding in enumerate(advice.findings, 1):
        lost = (
            ""
            if finding.category == "correctness"
            else f" {units.duration(finding.lost_us * 1e-6)} ({units.percent(finding.share)})"
        )
        yield ""
        yield f"{number}. [{finding.category}] {finding.pattern}:{lost}{_place(finding.where)}"
        yield f"   {clean(finding.what)}"
        yield f"   Do: {clean(finding.do)}"
        yield f"   Gain: {clean(finding.gain)}."
        if finding.quick_win:
            yield f"   Quick win: {clean(finding.quick_win)}: ratchet variants --quickwins {clean(finding.quick_win_case)}"
    if not advice.findings:
        yield f"Nothing is worth a change: a pattern has to cost {units.percent(advice.floor)} of it at least."
    if advice.checklist:
        yield ""
        yield "Checklist:"
    for number, answer in enumerate(advice.checklist, 1):
        yield f"  {number:>2}. {answer.question}: {clean(answer.answer)}"
    for warning in advice.warnings:
        yield f"Note: {clean(warning)}"


def _place(where: Where | None) -> str:
    if where is None:
        return ""
    called = f", {clean(where.call, 60)}" if where.call else ""
    if where.is_exact:
        return f" at {clean(where.file, 120)}:{where.line}{called}"
    if not where.line:
        return f" in {clean(where.file, 120)}{called}"
    return f" in {_SCOPES.get(where.function) or clean(where.function, 60)} ({clean(where.file, 120)}:{where.line}){called}"
