"""Shared by all outputs of a report: the order of its cases, the words for its outcomes, its figures as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ratchet import units
from ratchet.records import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary, Tree

NOTHING = "–"
ABOVE = 1.05
"""A share of a measured roof beyond this is no measurement error: the roof does not hold the case."""


@dataclass(frozen=True)
class Word:
    """An outcome for people."""

    mark: str
    text: str
    style: str
    """A style of rich."""
    meaning: str


WORDS: dict[Outcome, Word] = {
    Outcome.FAILED: Word("❌", "failed", "bold red", "not timed, because it did not build, did not run, or gave a wrong result"),
    Outcome.REGRESSED: Word("❌", "regressed", "bold red", "proven to be slower than the gate allows"),
    Outcome.SLOWER: Word(
        "🟠",
        "slower, not proven",
        "bold yellow",
        "the whole interval is past the gate, but a proof is missing; this is not a pass",
    ),
    Outcome.UNFIT: Word("⚠️", "unfit", "yellow", "the state of the machine would spoil the measurement, so there is no answer"),
    Outcome.INCONCLUSIVE: Word("❔", "inconclusive", "yellow", "not enough evidence for an answer; this is not a pass"),
    Outcome.IMPROVED: Word("✅", "improved", "bold green", "proven to be faster by at least the improvement threshold"),
    Outcome.CHANGED: Word("🔀", "changed", "cyan", "the two sides do different work, so their times cannot be compared"),
    Outcome.NEW: Word("🆕", "new", "cyan", "only in the head"),
    Outcome.MISSING: Word("🗑️", "missing", "magenta", "only in the reference"),
    Outcome.UNCHANGED: Word("➖", "unchanged", "dim", "any slowdown is shown to be smaller than the gate"),
    Outcome.MEASURED: Word("⏱️", "measured", "", "timed, with nothing to compare it with"),
    Outcome.IDENTICAL: Word("🟰", "identical", "dim", "the same machine code on both sides, so it was not timed"),
    Outcome.SKIPPED: Word("⏭️", "skipped", "dim", "this machine cannot run it"),
}
NO_SLOWDOWN = Word("➖", "no slowdown", "dim", "faster if anything, but not shown to be faster by the improvement threshold")
"""An UNCHANGED case whose whole interval is below zero counts as unchanged, but is not called that."""
_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}
NO_ANSWER = (Outcome.SLOWER, Outcome.UNFIT, Outcome.INCONCLUSIVE)
_SINGLE_SIDED = (Outcome.FAILED, Outcome.UNFIT, Outcome.MEASURED, Outcome.SKIPPED)


def compares(report: ReportRecord) -> bool:
    """Whether the run had anything to compare with; `ratchet run` has not, and then no outcome was earned."""
    return report.reference is not None or any(case.comparison for case in report.cases)


def worst_first(report: ReportRecord) -> list[CaseVerdict]:
    """Cases by outcome, then the slowest against its reference first, then in the order of the run."""
    return sorted(report.cases, key=lambda case: (_RANK[case.outcome], -(case.comparison.ratio if case.comparison else 0)))


def earned(case: CaseVerdict, report: ReportRecord) -> Outcome:
    """The outcome, but never one of a comparison where the run had nothing to compare with."""
    return case.outcome if compares(report) or case.outcome in _SINGLE_SIDED else Outcome.MEASURED


def word(case: CaseVerdict) -> Word:
    """The word for the outcome of a case."""
    no_slowdown = case.outcome is Outcome.UNCHANGED and case.comparison is not None and case.comparison.high < 1
    return NO_SLOWDOWN if no_slowdown else WORDS[case.outcome]


def reason(case: CaseVerdict) -> str:
    """Why a case has its outcome, for a line in which the words of the outcome already stand."""
    return case.reason.removeprefix("Slower, but not proven: ")


def meanings(report: ReportRecord) -> list[Word]:
    """The words that a report uses for its outcomes, worst first."""
    used = [WORDS[outcome] for outcome, _ in counted(report)]
    at = used.index(WORDS[Outcome.UNCHANGED]) + 1 if WORDS[Outcome.UNCHANGED] in used else 0
    return [*used[:at], *([NO_SLOWDOWN] if any(word(case) is NO_SLOWDOWN for case in report.cases) else []), *used[at:]]


def counted(report: ReportRecord) -> list[tuple[Outcome, int]]:
    """How many cases have each outcome, worst first, without zeros."""
    return [(outcome, report.counts[outcome]) for outcome in Outcome if report.counts.get(outcome)]


def mark(report: ReportRecord) -> str:
    """The sign before the headline: a pass in which a case got no answer is no plain pass."""
    if report.verdict == "regression":
        return "❌"
    if any(case.outcome is Outcome.SLOWER for case in report.cases) and report.verdict != "pass":
        return "🟠"
    if report.verdict == "not measured" or any(case.outcome in NO_ANSWER for case in report.cases):
        return "⚠️"
    return "✅" if compares(report) else "⏱️"


def time(side: SideSummary | None) -> str:
    """The median of one side."""
    return units.duration(side.median_ms / 1e3) if side else NOTHING


def change(comparison: Comparison | None, digits: int = 2) -> str:
    """``+5.21 %``; with a star where the reference is a stored time."""
    if comparison is None:
        return NOTHING
    return units.change(comparison.ratio, digits) + ("*" if comparison.source != "paired" else "")


def short_change(case: CaseVerdict) -> str:
    """``+119 % (2.2×)``, for a sentence: of what made the outcome; with a star where the reference is a stored time."""
    ratio = case.changed_ratio or (case.comparison.ratio if case.comparison else None)
    if ratio is None:
        return NOTHING
    return units.slowdown(ratio) + ("*" if case.comparison and case.comparison.source != "paired" else "")


def interval(comparison: Comparison | None, digits: int = 2) -> str:
    """``[+5.02, +5.38]``, in percent."""
    return units.interval(comparison.low, comparison.high, digits) if comparison else ""


def delta(comparison: Comparison | None) -> str:
    """Cliff's δ."""
    return f"{comparison.cliffs_delta:+.2f}".replace("-", "−") if comparison else NOTHING


def detectable(comparison: Comparison | None) -> str:
    """The minimum detectable effect."""
    return units.percent(comparison.detectable, 2) if comparison and comparison.detectable is not None else NOTHING


def roof(side: SideSummary | None) -> str:
    """The share of the measured roof: ``98 %``; words where the roof does not hold the case."""
    if side is not None and side.cached is not None:
        return {"warm": "warm L2", "fits": "fits in L2"}[side.cached]
    if side is None or side.share_of_roof is None:
        return NOTHING
    return "above" if side.share_of_roof > ABOVE else units.percent(side.share_of_roof)


def roof_notes(cases: Iterable[CaseVerdict]) -> list[str]:
    """The meaning of the words in the column of roofs, for the words that these cases have."""
    heads = [case.head for case in cases if case.head]
    above = {head.roof for head in heads if head.cached is None and (head.share_of_roof or 0.0) > ABOVE}
    notes = []
    if any(head.cached for head in heads):
        notes.append("In L2: the data come from the GPU’s L2 cache, so the bandwidth of the copy does not limit these cases.")
    if above - {"matmul"}:
        notes.append(
            "Above the copy: faster than the copy benchmark. The data come from a cache, or the case declares too many bytes."
        )
    if "matmul" in above:
        notes.append(
            "Above the matmul: faster than the matmul benchmark. Some products are faster, or the case declares too many FLOPs."
        )
    return notes


def aligned(rows: Iterable[Sequence[str]], how: str, indent: str = "") -> list[str]:
    """Lines with columns as wide as they need to be; an empty column is left out.

    ``how`` has ``<``, ``^`` or ``>`` for each column; columns beyond it are set to the left.
    """
    listed = list(rows)
    wide = [max(map(len, column)) for column in zip(*listed, strict=True)]
    lines = []
    for row in listed:
        columns = zip(row, how.ljust(len(row), "<"), wide, strict=False)
        lines.append((indent + "  ".join(f"{cell:{side}{width}}" for cell, side, width in columns if width)).rstrip())
    return lines


def short_hash(tree: Tree) -> str:
    """The first ten digits of a commit."""
    return tree.commit[:10]
