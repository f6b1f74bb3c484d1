"""The lines that `ratchet bisect`, `ratchet advise` and `ratchet evaluate` print. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from ratchet import units
from ratchet.judge.bisection import half_of
from ratchet.records.bisection import SearchRecord
from ratchet.records.evaluation import EvaluationRecord
from ratchet.records.profile import Advice, Where
from ratchet.report.words import named
from ratchet.untrusted import CELL, clean, log_line

# `ratchet bisect`: which commit changed a case, how sure that is, and what to run next.

_LEAST_REST = 0.25
"""Share of the whole change that is worth another search."""


def search_lines(search: SearchRecord) -> Iterator[str]:
    """Yield the commits that were looked at, in the order of history, then what was found and what to run next."""
    last = {one.tree.commit: one for one in search.looked_at}  # one that was undecided may have come again
    order = {commit: place for place, commit in enumerate(search.commits)}
    for commit in sorted(last, key=lambda commit: order[commit]):
        one = last[commit]
        yield f"{one.verdict:<10}{named(one.tree)}: {log_line(one.reason)}"
    yield f"{units.plural(len(search.commits), 'commit')} in the range, of which {len(last)} had to be looked at."
    case = log_line(search.case, CELL)
    if not search.suspects:
        is_same = search.looked_at[-1].verdict == "good"
        yield f"{case}: " + ("there is no change to search for." if is_same else "no change between GOOD and BAD was shown.")
        return
    slower = half_of(search) > 0
    if len(search.suspects) > 1:
        yield f"One of these {len(search.suspects)} commits made {case} {'slower' if slower else 'faster'}:"
    else:
        yield f"This commit made {case} {'slower' if slower else 'faster'}:"
    yield from (f"  {named(tree)}" for tree in search.suspects)
    yield f"At most {units.threshold(search.error)} of searches name a wrong commit."
    yield from _next_lines(search)


def _next_lines(search: SearchRecord) -> Iterator[str]:
    """Yield the commands that go on from here: read it, measure it again, search the rest."""
    parent, found = search.parent or search.good, search.suspects[-1]
    yield f"Read it:     git diff {parent.commit[:10]} {found.commit[:10]}"
    yield f"Do it again: {_command(search, parent.commit, found.commit)} --again"
    if search.merged:
        yield f"It is a merge; to search the merged branch: {_command(search, *search.merged)}"
    ratios = {one.tree.commit: one.comparison.ratio for one in search.looked_at if one.comparison}
    whole = 2 * half_of(search)
    before = math.log(ratios.get(parent.commit, 1.0))
    after = whole - math.log(ratios.get(found.commit, math.exp(whole)))
    for rest, good, bad in ((before, search.good, parent), (after, found, search.bad)):
        if rest / whole >= _LEAST_REST:
            change = units.slowdown(math.exp(rest))
            yield f"{change} of {units.slowdown(math.exp(whole))} are elsewhere: {_command(search, good.commit, bad.commit)}"


def _command(search: SearchRecord, good: str, bad: str) -> str:
    return shlex.join(["ratchet", "bisect", search.case, good[:10], bad[:10]])


# `ratchet advise`: findings, the costliest first, then the checklist.


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
            shown = f": ratchet variants --quickwins {clean(finding.quick_win_case)}" if finding.quick_win_case else ""
            yield f"   Quick win: {clean(finding.quick_win)}{shown}"
    if not advice.findings:
        yield f"Nothing is worth a change: a pattern has to cost {units.percent(advice.floor)} of it at least."
    if advice.checklist:
        yield ""
        yield "Checklist:"
    for number, answer in enumerate(advice.checklist, 1):
        yield f"  {number:>2}. {answer.question}: {clean(answer.answer)}"
    for warning in advice.warnings:
        yield f"Note: {clean(warning)}"


_SCOPES = {
    "<module>": "the script",
    "<lambda>": "a lambda",
    **dict.fromkeys(("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"), "a comprehension"),
}
"""Python's names of functions that have none."""


def _place(where: Where | None) -> str:
    if where is None:
        return ""
    called = f", {clean(where.call, 60)}" if where.call else ""
    if where.is_exact:
        return f" at {clean(where.file, 120)}:{where.line}{called}"
    if not where.line:
        return f" in {clean(where.file, 120)}{called}"
    return f" in {_SCOPES.get(where.function) or clean(where.function, 60)} ({clean(where.file, 120)}:{where.line}){called}"


# `ratchet evaluate`: first the lines that scripts read, one figure a line, then what a person wants to know.

MIB = 1 << 20


def evaluation_lines(record: EvaluationRecord) -> Iterator[str]:
    """Yield the lines of ``ratchet evaluate``."""
    for violation in record.violations:
        yield f"Constraint violated: {clean(violation.message)}"
    if record.speedup is not None and record.baseline_ms is not None and record.optimized_ms is not None:
        yield f"speedup: {record.speedup:.4f}"
        yield f"baseline_ms: {record.baseline_ms:.4f}"
        yield f"optimized_ms: {record.optimized_ms:.4f}"
        yield f"kernel_time_ms: {record.optimized_ms:.4f}"
    if record.peak_bytes is not None:
        yield f"peak_memory_mb: {record.peak_bytes / MIB:.2f}"
    yield f"verdict: {record.verdict}"
    yield clean(record.headline)
    for violation in record.violations:
        if violation.detail:
            yield f"  {clean(violation.detail)}"
    if record.baseline_peak_bytes is not None and record.peak_bytes is not None:
        both = f"{units.size(record.baseline_peak_bytes)} → {units.size(record.peak_bytes)}"
        yield f"Peak memory, baseline → candidate: {both}."
    compared = [probe for probe in record.probes if not probe.skipped]
    if compared and not any(violation.rule != "memory" for violation in record.violations):
        same = [probe.kind for probe in compared if not probe.problem]
        made = f"{clean(record.maker_function)} of {units.plural(len(same), 'seed')}" if record.maker else ""
        yield f"Same results on inputs that neither file had seen: {made or ', '.join(dict.fromkeys(same))}."
    for probe in record.probes:
        if probe.skipped:
            yield f"Not compared on {probe.kind} inputs: {clean(probe.skipped)}."
    for side, kernels in record.kernels.items():
        name = "baseline" if side == "reference" else "candidate"
        yield f"Kernels of the {name}: {', '.join(clean(kernel, 80) for kernel in kernels) or 'none'}."
    for warning in record.warnings:
        yield f"Note: {clean(warning)}"


def verified_line(before: EvaluationRecord, now: EvaluationRecord) -> str:
    """Compare an evaluation with the certificate that it ran again."""
    speeds = " and ".join(f"{one.speedup:.4f}" if one.speedup else "no speed-up" for one in (before, now))
    same = "confirmed" if before.verdict == now.verdict else "NOT confirmed"
    other = "" if before.evaluator == now.evaluator else " The evaluator is another version."
    return f"Certificate {same}: {before.verdict} then, {now.verdict} now ({speeds}).{other}"
