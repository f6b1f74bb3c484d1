"""Gates on what a case takes besides time: memory, spills, registers, machine code, launches, compiling, the host. Pure.

Most figures are exact: the driver, or the allocator, tells them of both sides in one run, so no interval is needed. Each grows
past its gate or does not. Compile time and host time are timed in pairs of fresh processes: they grew where a whole interval of
their ratio is past the gate. ``warn`` says so in the report; a fraction is a gate that fails the case.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from ratchet.core import units
from ratchet.core.records.baseline import BaselineEntry
from ratchet.core.records.run import OVERHEADS, CaseRun, GateName, OverheadName, OverheadPair, Policy, Side

WARNS: dict[GateName, float] = {"memory": 0.1, "spills": 0.0}
"""What is worth a sentence unless the settings say otherwise, and the growth from which on."""
OVERHEAD_PAIRS, FEWEST_PAIRS = 10, 6
"""Pairs of fresh processes in which compile time and host time are taken, and the fewest that give an interval."""
LEAST_GATE = 0.05
"""A process draws up to some percent of its host's time for itself (its layout in memory), so no gate on it is smaller."""
LEVEL_SHARE = 1 / 200
"""Share of the policy's false alarms for one figure of one case: 100 cases have two each."""
LEAST_MORE: dict[GateName, float] = {"memory": 1 << 20, "compile_time": 20e-3, "host_time": 1e-6}
"""Less is no growth, in bytes or seconds: an allocator's rounding, or a clock's. Of the others 1 is a growth."""


_SENTENCES: dict[GateName, str] = {
    "memory": "A call takes {} of memory; the reference takes {}",
    "spills": "A thread spills up to {} of registers to memory; in the reference {}",
    "registers": "A thread uses up to {} registers; in the reference {}",
    "code_size": "Its kernels have {} of machine code; in the reference {}",
    "launches": "A call launches {} kernels; in the reference {}",
    "compile_time": "Its first use takes {} more than its second one, as it compiles; in the reference {}",
    "host_time": "A call keeps the host for {}; in the reference {}",
}
"""Sentences about a figure of the head and one of the reference."""


def growths(case: CaseRun, policy: Policy) -> Iterator[tuple[str, bool]]:
    """Yield a sentence about each figure that grew past its gate, and whether that fails the case. Other work is no growth."""
    if case.reference_workload and case.workload != case.reference_workload:
        return
    for name, sentence in _SENTENCES.items():
        gate = policy.gates.get(name, "warn" if name in WARNS else "off")
        if gate == "off":
            continue
        head, reference = _figure(case, name, "head"), _figure(case, name, "reference")
        if head is None or reference is None or head - reference < LEAST_MORE.get(name, 1):
            continue
        limit = WARNS.get(name, 0.0) if gate == "warn" else gate
        low, change = head / reference if reference else math.inf, ""
        if name in OVERHEADS:
            if len(case.overheads[name]) < FEWEST_PAIRS:
                continue
            ratio, low, high = _interval(case.overheads[name], policy.false_alarm * LEVEL_SHARE)
            limit, change = max(limit, LEAST_GATE), f" ({' '.join(units.estimate(ratio, low, high))})"
        if low <= 1 + limit:
            continue
        gated = f", past the gate of {units.threshold(limit)} more" if limit else ", where any growth fails"
        past = "" if gate == "warn" else gated
        yield f"{sentence.format(_shown(name, head), _shown(name, reference))}{change}{past}.", gate != "warn"


def gated_overheads(policy: Policy) -> tuple[OverheadName, ...]:
    """Return what has to be timed in pairs of its own, since it is gated or warned of."""
    return tuple(name for name in OVERHEADS if policy.gates.get(name, "off") != "off")


def with_case_gates(policy: Policy, stored: Mapping[str, BaselineEntry]) -> Policy:
    """Return a policy that follows the history, if it has no gates of cases yet, with those of the baseline on this machine."""
    if not policy.follows_history or policy.case_gates:  # a recorded run has those of its reference's baseline
        return policy
    return policy.model_copy(update={"case_gates": {name: entry.gate for name, entry in stored.items() if entry.gate}})


def figures_of(case: CaseRun, side: Side) -> dict[GateName, float]:
    """Return every figure that is known of a side, in bytes, in seconds or as a count."""
    figures = {name: _figure(case, name, side) for name in _SENTENCES}
    return {name: figure for name, figure in figures.items() if figure is not None}


def _interval(pairs: Sequence[OverheadPair], level: float) -> tuple[float, float, float]:
    """Return the ratio of the sides and its interval by Student's t over all pairs: an outlier widens it, so none is left out.

    ``level``: how often the interval may lie too high.
    """
    from ratchet.core.judge.estimate import quantile  # with numpy, which those who only read a history do not need

    logs = [math.log(pair.head_ms / pair.reference_ms) for pair in pairs]
    centre, spread = statistics.fmean(logs), statistics.stdev(logs)
    half = quantile(1 - level, len(logs) - 1) * spread / math.sqrt(len(logs))
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def _shown(name: GateName, figure: float) -> str:
    if name in ("memory", "code_size"):
        return units.size(int(figure))
    if name in OVERHEADS:
        return units.duration(figure)
    return units.plural(int(figure), "byte") if name == "spills" else f"{figure:.0f}"


def _figure(case: CaseRun, name: GateName, side: Side) -> float | None:
    if name == "memory":
        performance = case.performance if side == "head" else case.reference_performance
        return performance.peak_memory_bytes if performance else None
    if name in OVERHEADS:
        pairs = case.overheads.get(name)
        return statistics.median(getattr(pair, f"{side}_ms") for pair in pairs) / 1e3 if pairs else None
    return int(getattr(case.resources[side], name)) if side in case.resources else None
