"""Words, marks and figures that all outputs of a report share, so that comment, terminal and pictures say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ratchet.core import units
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary
from ratchet.core.untrusted import CELL, log_line

NOTHING = "–"
BENCH_FROM_HEAD = "benchmarks of the head on both sides"
ABOVE = 1.05
"""Share of a measured roof. More than this is not noise: the roof does not limit the case."""


@dataclass(frozen=True)
class Word:
    """An outcome as people see it."""

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
    Outcome.IDENTICAL: Word("🟰", "identical", "dim", "the same code on both sides, so it was not timed"),
    Outcome.SKIPPED: Word("⏭️", "skipped", "dim", "this machine cannot run it"),
}
NO_SLOWDOWN = Word("➖", "no slowdown", "dim", "faster, but not proven to be faster by the improvement threshold")
"""An UNCHANGED case whose whole interval is below zero counts as unchanged, but is not called that."""
HOST_BOUND = Word(
    "⏳", "host-bound", "yellow", "in half of the blocks or more the GPU waited for the host; shown in addition to an outcome"
)
_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}
NO_ANSWER = (Outcome.SLOWER, Outcome.UNFIT, Outcome.INCONCLUSIVE)
_SINGLE_SIDED = (Outcome.FAILED, Outcome.UNFIT, Outcome.MEASURED, Outcome.SKIPPED)


def compares(report: ReportRecord) -> bool:
    """Return whether the run had anything to compare with; a `ratchet run` has not."""
    return report.reference is not None or any(case.comparison for case in report.cases)


def worst_first(report: ReportRecord) -> list[CaseVerdict]:
    """Return the cases by outcome, then the slowest against its reference first, then in the order of the run."""
    return sorted(report.cases, key=lambda case: (_RANK[case.outcome], -(case.comparison.ratio if case.comparison else 0)))


def outcome_before_acceptance(case: CaseVerdict, report: ReportRecord) -> Outcome:
    """Return the outcome; MEASURED for an outcome of a comparison where the run had nothing to compare with."""
    return case.outcome if compares(report) or case.outcome in _SINGLE_SIDED else Outcome.MEASURED


def word(case: CaseVerdict) -> Word:
    no_slowdown = case.outcome is Outcome.UNCHANGED and case.comparison is not None and case.comparison.high < 1
    return NO_SLOWDOWN if no_slowdown else WORDS[case.outcome]


def reason(case: CaseVerdict) -> str:
    """Return the reason for an outcome, without the words that the line already has for the outcome itself."""
    return case.reason.removeprefix("Slower, but not proven: ").removeprefix("Slower now and then, but not proven: ")


def missing(case: CaseVerdict) -> str:
    """Return the reason for a slowdown without proof; without its figures, where more is said than these."""
    figures, _, rest = reason(case).partition(" %. ")
    return rest if rest and figures.startswith(("+", "−")) else reason(case)


def by_sentence(cases: Iterable[CaseVerdict], sentence_of: Callable[[CaseVerdict], str | None]) -> dict[str, tuple[str, ...]]:
    """Return sentence → names of the cases that have it, each sentence once; cases without one are left out."""
    grouped: dict[str, tuple[str, ...]] = {}
    for case in cases:
        if sentence := sentence_of(case):
            grouped[sentence] = (*grouped.get(sentence, ()), case.name)
    return grouped


def meanings(report: ReportRecord) -> list[Word]:
    """Return the words that a report uses for its outcomes, worst first."""
    used = [WORDS[outcome] for outcome, _ in counted(report)]
    at = used.index(WORDS[Outcome.UNCHANGED]) + 1 if WORDS[Outcome.UNCHANGED] in used else 0
    no_slowdown = [NO_SLOWDOWN] if any(word(case) is NO_SLOWDOWN for case in report.cases) else []
    return [*used[:at], *no_slowdown, *used[at:], *([HOST_BOUND] if any(case.host_bound for case in report.cases) else [])]


def counted(report: ReportRecord) -> list[tuple[Outcome, int]]:
    """Return how many cases have each outcome, worst first, without zeros."""
    return [(outcome, report.counts[outcome]) for outcome in Outcome if report.counts.get(outcome)]


def mark(report: ReportRecord) -> str:
    """Return the sign before the headline. A pass in which a case got no answer gets a warning sign, not a green mark."""
    if report.verdict == "regression":
        return "❌"
    if any(case.outcome is Outcome.SLOWER for case in report.cases) and report.verdict != "pass":
        return "🟠"
    if report.verdict == "not measured" or any(case.outcome in NO_ANSWER or case.is_silenced for case in report.cases):
        return "⚠️"
    return "✅" if compares(report) else "⏱️"


def gate(policy: Policy) -> str:
    """Return the gate, or the smallest and the largest of those that cases have of their own: ``1 % to 2.4 %, by case``."""
    ends = dict.fromkeys(units.threshold(end(policy.case_gates.values())) for end in (min, max) if policy.case_gates)
    return f"{' to '.join(ends)}, by case" if ends else units.threshold(policy.regression)


def time(side: SideSummary | None) -> str:
    """Return the median of one side as text, such as ``349.8 µs``."""
    return units.duration(side.median_ms / 1e3) if side else NOTHING


def times(case: CaseVerdict) -> str:
    """Return both medians, such as ``36.84 → 80.79 µs``; a unit that they share once."""
    reference, head = time(case.reference), time(case.head)
    same_unit = case.reference and case.head and reference.partition(" ")[2] == head.partition(" ")[2]
    return f"{reference.partition(' ')[0] if same_unit else reference} → {head}"


def change(comparison: Comparison | None) -> str:
    """Return ``+5.21 %``; with a star where the reference is a stored time, not one measured beside the head."""
    if comparison is None:
        return NOTHING
    return units.change(comparison.ratio, comparison.digits) + ("*" if not comparison.is_paired else "")


def interval(comparison: Comparison | None) -> str:
    """Return ``[+5.02, +5.38]``, in percent; empty where nothing was compared."""
    return units.interval(comparison.low, comparison.high, comparison.digits) if comparison else ""


def delta(comparison: Comparison | None) -> str:
    """Return Cliff's δ, from −1 to 1 (Cliff, Dominance statistics, Psychological Bulletin 1993)."""
    return f"{comparison.cliffs_delta:+.2f}".replace("-", "−") if comparison else NOTHING


def detectable(comparison: Comparison | None) -> str:
    """Return the minimum detectable effect in percent."""
    return (
        units.percent(comparison.detectable, comparison.digits) if comparison and comparison.detectable is not None else NOTHING
    )


def roof(side: SideSummary | None) -> str:
    """Return the share of the measured roof, such as ``98 %``; words where the roof does not limit the case."""
    if side is not None and side.cached is not None:
        return {"warm": "warm L2", "fits": "fits in L2"}[side.cached]
    return share_of_roof(side.share_of_roof if side else None)


def share_of_roof(share: float | None) -> str:
    """Return a share of the measured roof as text; ``above`` where the roof does not limit the case."""
    if share is None:
        return NOTHING
    return "above" if share > ABOVE else units.percent(share)


def roof_notes(cases: Iterable[CaseVerdict]) -> list[str]:
    """Return sentences that explain the words in the column of roofs, only for words that these cases have."""
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
    """Return lines with columns as wide as they need to be; an empty column is left out.

    ``how`` has ``<``, ``^`` or ``>`` for each column; columns beyond it are set to the left.
    """
    listed = list(rows)
    wide = [max(map(len, column)) for column in zip(*listed, strict=True)]
    lines = []
    for row in listed:
        columns = zip(row, how.ljust(len(row), "<"), wide, strict=False)
        lines.append((indent + "  ".join(f"{cell:{side}{width}}" for cell, side, width in columns if width)).rstrip())
    return lines


def commit_label(tree: Tree) -> str:
    """Return the short hash of a commit with its subject, on one line."""
    return f'{tree.commit[:10]} "{log_line(tree.subject, CELL)}"'
