"""What the outputs of a report share: the order of its cases, the words and marks of its outcomes, its figures as text."""

from __future__ import annotations

from dataclasses import dataclass

from ratchet import units
from ratchet.records import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary, Tree

NOTHING = "–"


@dataclass(frozen=True)
class Word:
    """An outcome for people."""

    mark: str
    text: str
    style: str
    """A style of rich."""
    meaning: str


WORDS: dict[Outcome, Word] = {
    Outcome.FAILED: Word("❌", "failed", "bold red", "no time: it did not build, did not run, or gave a wrong result"),
    Outcome.REGRESSED: Word("❌", "regressed", "bold red", "slower than the gate allows, and the interval agrees"),
    Outcome.SLOWER: Word(
        "🟠", "slower, not proven", "bold yellow", "the whole interval is past the gate, the proof is missing; not a pass"
    ),
    Outcome.UNFIT: Word("⚠️", "unfit", "yellow", "the machine was in no state to be trusted, so there is no answer"),
    Outcome.INCONCLUSIVE: Word("❔", "inconclusive", "yellow", "not enough evidence for any answer; it is not a pass"),
    Outcome.IMPROVED: Word("✅", "improved", "bold green", "faster by the improvement threshold, and the interval agrees"),
    Outcome.CHANGED: Word("🔀", "changed", "cyan", "the work itself differs between the sides, so their times do not compare"),
    Outcome.NEW: Word("🆕", "new", "cyan", "only in the head"),
    Outcome.MISSING: Word("🗑️", "missing", "magenta", "only in the reference"),
    Outcome.UNCHANGED: Word("➖", "unchanged", "dim", "shown to lie inside the gate"),
    Outcome.MEASURED: Word("⏱️", "measured", "", "timed, with nothing to compare with"),
    Outcome.IDENTICAL: Word("🟰", "identical", "dim", "the same machine code on both sides, so it was not timed"),
    Outcome.SKIPPED: Word("⏭️", "skipped", "dim", "this machine cannot run it"),
}
_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}
NO_ANSWER = (Outcome.SLOWER, Outcome.UNFIT, Outcome.INCONCLUSIVE)
_SINGLE_SIDED = (Outcome.FAILED, Outcome.UNFIT, Outcome.MEASURED, Outcome.SKIPPED)


def compares(report: ReportRecord) -> bool:
    """Whether the run had anything to compare with; `ratchet run` has not, and then no outcome was earned."""
    return report.reference is not None or any(case.comparison for case in report.cases)


def worst_first(report: ReportRecord) -> list[CaseVerdict]:
    """By outcome, then the slowest against its reference first, then as measured."""
    return sorted(report.cases, key=lambda case: (_RANK[case.outcome], -(case.comparison.ratio if case.comparison else 0)))


def earned(case: CaseVerdict, report: ReportRecord) -> Outcome:
    """The outcome, but never one of a comparison where the run had nothing to compare with."""
    return case.outcome if compares(report) or case.outcome in _SINGLE_SIDED else Outcome.MEASURED


def counted(report: ReportRecord) -> list[tuple[Outcome, int]]:
    """How many cases have each outcome, worst first, without zeros."""
    return [(outcome, report.counts[outcome]) for outcome in Outcome if report.counts.get(outcome)]


def mark(report: ReportRecord) -> str:
    """The sign before the headline: a pass in which a case got no answer is no plain pass."""
    if report.verdict == "regression":
        return "❌"
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


def interval(comparison: Comparison | None, digits: int = 2) -> str:
    """``[+5.02, +5.38]``, in percent."""
    if comparison is None:
        return ""
    low, high = (units.change(ratio, digits).removesuffix(" %") for ratio in (comparison.low, comparison.high))
    return f"[{low}, {high}]"


def delta(comparison: Comparison | None) -> str:
    """Cliff's δ."""
    return f"{comparison.cliffs_delta:+.2f}".replace("-", "−") if comparison else NOTHING


def detectable(comparison: Comparison | None) -> str:
    """The minimum detectable effect."""
    return units.percent(comparison.detectable, 2) if comparison and comparison.detectable is not None else NOTHING


def share(fraction: float) -> str:
    """A share of the measured roof."""
    return units.percent(fraction)


def short_hash(tree: Tree) -> str:
    """The first ten digits of a commit."""
    return tree.commit[:10]
