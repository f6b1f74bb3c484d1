"""The verdict of a run (``results/report.json``): an outcome for each case, and one for the whole."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import AliasChoices, AwareDatetime, Field

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment
from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.run import Plan, Policy, Tree


class Outcome(StrEnum):
    """The outcome of one case. Reports list outcomes in this order."""

    FAILED = "FAILED"
    REGRESSED = "REGRESSED"
    SLOWER = "SLOWER"
    """The whole interval lies past the gate, but the evidence does not suffice to call it a regression: never a pass."""
    UNFIT = "UNFIT"
    INCONCLUSIVE = "INCONCLUSIVE"
    IMPROVED = "IMPROVED"
    CHANGED = "CHANGED"
    NEW = "NEW"
    MISSING = "MISSING"
    UNCHANGED = "UNCHANGED"
    MEASURED = "MEASURED"
    """Timed alone by `ratchet run`: there is nothing it is compared with."""
    IDENTICAL = "IDENTICAL"
    SKIPPED = "SKIPPED"


SLOWDOWNS = (Outcome.REGRESSED, Outcome.SLOWER)
"""Outcomes of cases that look slower: they are profiled, and a person may accept them."""


# The second name of a choice is that of earlier files.


class Total(Record):
    """The mean of all calls of the head against that of the reference: what is slow now and then is part of it."""

    ratio: Positive
    low: Positive
    high: Positive
    p_value: NotNegative = Field(validation_alias=AliasChoices("p_value", "chance"))
    """One-sided p-value: how often unchanged code would look at least this far off, in this direction."""
    sessions_p_value: NotNegative | None = Field(None, validation_alias=AliasChoices("sessions_p_value", "sessions_chance"))
    """As in `Comparison`."""
    processes: Count
    """Processes of each side."""
    slow_processes: tuple[Count, Count] = (0, 0)
    """Those of the head and of the reference that take clearly more than the median one of their side."""
    process_factor: Positive = 1.0
    """Times the median that the head's slow processes take."""
    calls: tuple[Count, Count] = (0, 0)
    """Calls that were timed one by one, on the head and on the reference."""
    slow_calls: tuple[Count, Count] = (0, 0)
    """Those that take clearly more than the median call of their process."""
    call_factor: Positive = 1.0
    """Times the median that the head's slow calls take."""


class Comparison(Record):
    """Head against reference. ``ratio`` is head time / reference time: above 1 is slower."""

    ratio: Positive
    low: Positive
    high: Positive
    bound: Positive | None = None
    """A surer upper end (99.6 % one-sided, for a 95 % interval): below the gate, it shows that the case is unchanged."""
    confidence: Positive
    p_value: NotNegative = Field(validation_alias=AliasChoices("p_value", "chance"))
    """One-sided p-value: how often unchanged code would look at least this far off, in this direction."""
    cliffs_delta: float
    """−1 (every head worker faster) to +1 (every one slower); an effect size, never the gate."""
    pairs: Count
    outliers: Count = Field(0, validation_alias=AliasChoices("outliers", "rogues"))
    """How many of the pairs were left out as outliers, because something else happened in them."""
    spread: NotNegative = 0.0
    """Standard deviation of the log ratio of one pair: 0.002 is 0.2 %."""
    correlation: float = 0.0
    """Autocorrelation of a pair's log ratio with that of the pair before it."""
    effective_pairs: NotNegative | None = Field(None, validation_alias=AliasChoices("effective_pairs", "independent"))
    """Effective number of independent pairs, outliers included, one standard error on the safe side."""
    decile_bounds: tuple[Positive, Positive] | None = Field(None, validation_alias=AliasChoices("decile_bounds", "nearly_all"))
    """The ratio that nine pairs in ten exceed, and the one that nine in ten stay below."""
    sessions: tuple[Positive, ...] = ()
    """The ratio in each session, whose hosts were started on their own: the median of its pairs."""
    sessions_p_value: NotNegative | None = Field(None, validation_alias=AliasChoices("sessions_p_value", "sessions_chance"))
    """One-sided p-value of no difference by the sessions alone (Student's t): forks of one host count as one draw."""
    resolution: NotNegative = 0.0
    """The times are known to this fraction at best, because of the steps in which they were measured or stored."""
    total: Total | None = None
    """The comparison of means, by everything that was timed."""
    detectable: Positive | None = None
    """The smallest slowdown, as a fraction, that a check would call a regression four times in five, at this spread (MDE)."""
    source: Literal["paired", "total", "kernels", "stored", "days"] = "paired"
    """``total``: paired, of the mean of all calls, where that decided; ``kernels``: of the time that kernels take without the
    host's; ``stored``: against milliseconds measured another time; ``days``: the same, widened by the known spread between
    days."""
    digits: Count = 2
    """Decimals of the change in percent, and of its interval, that are shown (`units.earned_digits`)."""
    other: object = Field(default=None, exclude=True)
    """Of earlier files: read, and never written."""

    @property
    def upper_bound(self) -> float:
        """The surer upper end of the ratio."""
        return self.bound or self.high

    @property
    def is_paired(self) -> bool:
        """Return whether both sides were measured in turn, so that what disturbs them cancels."""
        return self.source in ("paired", "total", "kernels")


class SideSummary(Record):
    """Figures that a report shows of one side of a case."""

    median_ms: Positive
    gflops: NotNegative
    gb_s: NotNegative
    peak_memory_bytes: Count
    roof: str | None = None
    """The measured roof that this case is read against: ``copy`` or ``matmul``."""
    share_of_roof: NotNegative | None = None
    cached: Literal["warm", "fits"] | None = None
    """Why a case has no share of the copy's roof: its data were in the L2 cache (``warm``), or fit into it (``fits``)."""
    stages_ms: dict[str, Positive] = {}


class CaseVerdict(Record):
    """The outcome of one case and the figures behind it."""

    name: str
    outcome: Outcome
    reason: str
    """One sentence."""
    comparison: Comparison | None = None
    best: Comparison | None = None
    """The head against the best commit of the baseline, where a small slowdown made that worth measuring."""
    best_tree: Tree | None = None
    head: SideSummary | None = None
    reference: SideSummary | None = None
    unchecked: str | None = None
    """One sentence that says what of its result was checked, where its workload has no reference."""
    memory: str | None = None
    """Sentences about what the head takes more of than the reference, besides time: memory, registers, launches."""
    muted: str | None = None
    """Until when the case is muted, by whom and why; None where it is not."""
    last_lines: tuple[str, ...] = ()
    dropped_blocks: Count = 0
    host_bound: str = ""
    """That the GPU waited for the host in most blocks, and what would help; empty where it did not."""
    timed_because: str | None = None
    """Why a case on a GPU that shows no change was timed, although the code of an unchanged one need not be."""

    @property
    def is_silenced(self) -> bool:
        """Return whether a mute keeps this outcome from failing the run: of a time, never of a wrong result."""
        return self.muted is not None and self.outcome in (*SLOWDOWNS, Outcome.INCONCLUSIVE)

    @property
    def changed_ratio(self) -> float | None:
        """Head time / reference time that made the case REGRESSED, SLOWER or IMPROVED; None for every other outcome.

        Against the best commit, where the case is slower than that one alone.
        """
        own, best = self.comparison, self.best
        if self.outcome in SLOWDOWNS:
            return next((comparison.ratio for comparison in (own, best) if comparison and comparison.ratio > 1), None)
        return own.ratio if self.outcome is Outcome.IMPROVED and own and own.ratio < 1 else None


class ReportRecord(Record):
    """``results/report.json``: the verdict of a run without its samples."""

    schema_version: Literal[1] = 1
    verdict: Literal["pass", "regression", "not measured"]
    headline: str
    exit_code: Count
    counts: dict[Outcome, int]
    cases: tuple[CaseVerdict, ...]
    policy: Policy
    plan: Plan
    environment: Environment
    head: Tree
    reference: Tree | None
    started_at: AwareDatetime
    wall_s: NotNegative
    command: tuple[str, ...]
    bench_from: Literal["head"] | None = None
    """As in the run."""
    warnings: tuple[str, ...] = ()
    profiles: tuple[CaseProfile, ...] = ()
    """Profiles of cases that changed, worst first; without the metrics that have no field of their own."""
    unprofiled: tuple[str, ...] = ()
    """Cases that changed and were left out, because a run profiles only so many."""
