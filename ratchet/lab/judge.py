"""Decide about a change that was tried, by bounds and not by means: an experiment on a pipeline, or an evaluation of two files.

`ratchet experiment run` calls `settled` between rounds of pairs, `wants_reruns` after them, and `decide` at the end; `ratchet
evaluate` calls `judged` once, at the end. The third part says what a session tries next: `rotation`, `ceilings` and `is_plateau`.

A threshold is cleared by the bound that is too low once in 200 runs (`Comparison.bound`, a studentised bootstrap over pairs of
processes), since the pairs are looked at several times, and only with an exact randomisation test over at least eight pairs
(`Comparison.p_value`): a few pairs may scatter too little. The five re-runs of a stage are looked at once, so there the 95 %
interval decides. Pure.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from ratchet.core import units
from ratchet.core.errors import Exit
from ratchet.core.judge.comparison import Pair, compare_pairs
from ratchet.core.judge.rule import looks
from ratchet.core.records.profile import Category
from ratchet.core.records.verdict import Comparison
from ratchet.lab.records.evaluation import EvaluationResult, EvaluationVerdict, Observed, Timed
from ratchet.lab.records.experiment import (
    PROFILED_CALLS,
    WHOLE,
    Branch,
    Ceiling,
    Decision,
    ExperimentRecord,
    Gain,
    Kind,
    Luck,
    Rotation,
    SessionRecord,
    StageChange,
    SuiteOutcome,
)

E2E, STAGE, MICRO = 0.03, 0.10, 0.20
"""Least reductions of the whole call, of a stage and of a micro-benchmark that keep a change."""
RERUNS = 5
"""Further pairs of fresh, warm processes that a stage has to win again."""
HOT = 0.10
"""Least share of the whole call that makes a stage hot."""
CONFIDENCE = 0.95
FEWEST, CHANCE = 8, 0.005
"""Pairs without which nothing is decided, and the largest p-value of a change: all of eight pairs agree.

On a busy machine a few pairs scatter too little by chance: the bound alone, of six pairs, was wrong in one run of twenty-four."""
SLOWER = 0.01
"""A whole call that is slower by more than this, beyond doubt, was not improved by a faster stage."""


@dataclass(frozen=True)
class ChangeEvidence:
    """Everything that is known of one change. None: not measured."""

    stage: str = WHOLE
    failure: str = ""
    """Why the working tree gave no time."""
    is_wrong: bool = False
    """The failure is a wrong result."""
    tests: SuiteOutcome | None = None
    e2e: Comparison | None = None
    of_stage: Comparison | None = None
    confirmation: Comparison | None = None
    micro: Comparison | None = None
    share: float | None = None
    """Share of the whole call that the stage takes, before the change."""


def decide(evidence: ChangeEvidence) -> Decision:
    """Return the decision and its one sentence."""
    e2e = evidence.e2e
    early = _without_times(evidence)
    if early is not None or e2e is None:
        return early or _decision("crash", "crash", "Too few pairs were measured to say anything.")
    if clears(e2e, E2E):
        return _decision(
            "keep", "e2e", f"The whole call takes at least {_at_least(e2e)} less time ({units.threshold(E2E)} suffice)."
        )
    if _is_slower(e2e):
        note = "The stage is faster, but its gain is paid for elsewhere." if _stage_clears(evidence) else ""
        return _decision("discard", "slower", f"The whole call is slower: {_shown(e2e)}.", note)
    masking = f"The whole call is too noisy here to show the gain ({_shown(e2e)})."
    if e2e.low > 1 - E2E:
        masking = f"The whole call hides the gain ({_shown(e2e)}): other work runs meanwhile, or the part is too small."
    if _stage_clears(evidence):
        return _by_reruns(evidence, masking)
    if evidence.micro is not None and clears(evidence.micro, MICRO) and (evidence.share or 0.0) >= HOT:
        reason = f"The micro-benchmark takes at least {_at_least(evidence.micro)} less time, and {evidence.stage} is hot."
        return _decision("keep", "micro", reason, masking)
    return _decision("discard", "nothing", _nothing(evidence, e2e))


def _without_times(evidence: ChangeEvidence) -> Decision | None:
    """Decide where times do not matter."""
    if evidence.failure and not evidence.is_wrong:
        return _decision("crash", "crash", f"The working tree does not run: {evidence.failure}.")
    tests = evidence.tests
    if tests is not None and (tests.failed or tests.problem):
        what = tests.problem or f"{units.plural(tests.failed, 'test')} failed"
        return _decision("discard", "tests", f"Fix or discard: {what}.")
    return _decision("discard", "wrong", f"Fix or discard: {evidence.failure}.") if evidence.is_wrong else None


def _by_reruns(evidence: ChangeEvidence, masking: str) -> Decision:
    again, stage = evidence.confirmation, evidence.stage
    if again is None:
        return _decision("discard", "stage noise", f"The gain of {stage} could not be measured again.")
    if again.high <= 1 - STAGE:
        reason = f"{stage} takes at least {units.percent(1 - again.high, 1)} less time in {RERUNS} warm re-runs."
        return _decision("keep", "stage confirmed", reason, masking)
    reason = f"{stage} did not clear {units.threshold(STAGE)} again in {RERUNS} warm re-runs ({_shown(again)})."
    return _decision("discard", "stage noise", reason)


def settled(evidence: ChangeEvidence) -> bool:
    """Return whether more pairs would change nothing: each threshold is cleared, or is outside of the interval."""
    e2e, stage = evidence.e2e, evidence.of_stage
    if e2e is None or clears(e2e, E2E) or _is_slower(e2e):
        return e2e is not None
    return e2e.low > 1 - E2E and (stage is None or is_settled(stage, STAGE))


def is_settled(comparison: Comparison, reduction: float) -> bool:
    """Return whether this threshold is cleared, or is outside of the interval."""
    return clears(comparison, reduction) or comparison.low > 1 - reduction


def wants_reruns(evidence: ChangeEvidence) -> bool:
    """Return whether the five re-runs decide."""
    return decide(evidence).branch == "stage noise"


def clears(comparison: Comparison, reduction: float) -> bool:
    """Return whether the time is lower by at least ``reduction`` beyond doubt, with and without outliers."""
    return comparison.upper_bound <= 1 - reduction and _is_proven(comparison)


def change_between(name: str, pairs: Sequence[Pair]) -> StageChange | None:
    """Return the times before and after, whose ratio is what the pairs show. None where there are too few."""
    comparison = compare_pairs(pairs, CONFIDENCE)
    if comparison is None:
        return None
    middle = math.sqrt(statistics.median(pair.head_ms for pair in pairs) * statistics.median(pair.reference_ms for pair in pairs))
    root = math.sqrt(comparison.ratio)
    return StageChange(name=name, before_ms=middle / root, after_ms=middle * root, comparison=comparison)


def luck(experiments: Sequence[ExperimentRecord]) -> Luck | None:
    """Return how often the best of so many experiments looks as good by chance: Šidák's correction of its p-value.

    Those that gave no time are not counted. Z. Šidák, Journal of the American Statistical Association 62 (1967), 626.
    """
    measured = [(one.e2e.comparison, one.number) for one in experiments if one.e2e]
    if not measured:
        return None
    best, number = min(measured, key=lambda entry: entry[0].ratio)
    chance = 1.0 if best.ratio >= 1 else best.p_value
    return Luck(best=number, of=len(measured), p_value=1 - (1 - chance) ** len(measured))


PATTERNS: dict[str, tuple[Category, str]] = {
    "loop-invariant-tensor": ("transfer", "loop-invariant hoisting"),
    "tensor-create": ("transfer", "loop-invariant hoisting"),
    "pageable-h2d": ("transfer", "pageable->pinned"),
    "h2d-staging": ("transfer", "pageable->pinned"),
    "dispatch-gaps": ("dispatch", "fusion candidate"),
    "kernel-fusion": ("dispatch", "fusion candidate"),
    "monolithic-preprocess": ("dispatch", "candidate for one compiled stage"),
    "monolithic-postprocess": ("dispatch", "candidate for one compiled stage"),
    "stream-block": ("sync", "synchronize->event"),
    "allocation": ("memory", "preallocation candidate"),
    "preallocated-output": ("memory", "preallocation candidate"),
    "precision": ("compute", "candidate for fewer bits"),
    "operator-replacement": ("compute", "candidate for another operator"),
}
"""Known patterns, written with hyphens: the category of each, and what a place that has it is a candidate for."""
_KINDS: dict[Category, Kind] = {
    "transfer": "transfer",
    "memory": "transfer",
    "dispatch": "dispatch",
    "sync": "synchronisation",
    "compute": "compute",
    "correctness": "compute",
}


def category_of(pattern: str) -> Category | None:
    """Return the category of a known pattern; one operation for a whole stage, whatever its name, saves launches."""
    name = pattern.lower().replace("_", "-")
    return "dispatch" if name.startswith("monolithic-") else PATTERNS.get(name, (None, ""))[0]


def candidate(pattern: str) -> str:
    """Return what a place with this pattern is a candidate for; empty for a pattern that is not known."""
    return PATTERNS.get(pattern.lower().replace("_", "-"), (None, ""))[1]


def kind_of(pattern: str, category: Category) -> Kind:
    """Return the kind of change: what the rotation counts."""
    name = pattern.lower()
    if name.startswith("monolithic"):
        return "monolithic"
    return "architectural" if name.startswith(("architect", "pipeline", "batch")) else _KINDS[category]


def _is_slower(comparison: Comparison) -> bool:
    return comparison.low > 1 + SLOWER and _is_proven(comparison)


def _is_proven(comparison: Comparison) -> bool:
    return comparison.pairs >= FEWEST and comparison.p_value <= CHANCE


def _stage_clears(evidence: ChangeEvidence) -> bool:
    return evidence.of_stage is not None and evidence.stage != WHOLE and clears(evidence.of_stage, STAGE)


def _decision(status: str, branch: Branch, reason: str, note: str = "") -> Decision:
    return Decision.model_validate({"status": status, "branch": branch, "reason": reason, "note": note})


def _nothing(evidence: ChangeEvidence, e2e: Comparison) -> str:
    """Say what was missing, so that a gain that could not be shown is not taken for none."""
    parts = [f"the whole call changed by {_shown(e2e)} and must take {units.threshold(E2E)} less time"]
    if evidence.of_stage is not None and evidence.stage != WHOLE:
        parts.append(f"{evidence.stage} changed by {_shown(evidence.of_stage)} and must take {units.threshold(STAGE)} less time")
    if evidence.micro is not None and clears(evidence.micro, MICRO):
        share = units.percent(evidence.share or 0.0, 1)
        parts.append(f"the micro-benchmark is faster, but {evidence.stage} is only {share} of the whole call")
    elif evidence.micro is not None:
        parts.append(f"the micro-benchmark changed by {_shown(evidence.micro)} and must take {units.threshold(MICRO)} less time")
    return f"No gain beyond doubt: {'; '.join(parts)}."


def _shown(comparison: Comparison) -> str:
    interval = units.interval(comparison.low, comparison.high, 1)
    return f"{units.change(comparison.ratio, 1)}, interval {interval} %, bound {units.change(comparison.upper_bound, 1)}"


def _at_least(comparison: Comparison) -> str:
    return units.percent(1 - comparison.upper_bound, 1)


def looks_that_decide(pairs: int) -> tuple[int, ...]:
    """Return the numbers of pairs at which an experiment of so many pairs at most is looked at."""
    return tuple(number for number in looks(pairs) if number >= FEWEST) or (pairs,)


# An evaluation: is the candidate faster than the baseline by the referee's clock? The number of pairs was fixed before. Faster
# takes the bound on that side of no change; where fewer fresh processes than `FEWEST` share the pairs, past `SAME`, as slower
# always does: what a process has of its own (where its code lies) is one or two per cent.

SAME = 0.03
"""Both bounds of a change below this: the files are equally fast."""
FAR = 2.0
"""A candidate that takes this many times as long in each pair is slower, even in fewer than `FEWEST`. A choice."""
AGREE = 0.5
"""Share of what a candidate saves (of its logarithm) that the interval of the slope between K and 2K calls has to reach, and that
has to be there against the baseline's time when the candidate is gone."""
COLD = 2.0
"""Handing a result over takes at most this many times longer where a call has driven it out of the caches. A choice."""
HANDS_OVER = "It saves no more than handing a result over takes, which a file that takes over its runner could leave out."
FEWEST_ROUND_TRIPS = 5.0
"""Where a message of K calls of the slower side takes less than this many empty messages, calls are too short to be judged."""


def judged(seen: Observed) -> EvaluationResult:
    """Return the verdict and the figures that follow from what was seen."""
    change, slope = change_between(WHOLE, _pairs_of(seen.samples)), compare_pairs(_slopes_of(seen.samples), CONFIDENCE)
    comparison = change.comparison if change else None
    figures: dict[str, object] = {}
    # What was wrong or failed has no speed; what takes too much memory has one.
    if change and not seen.trouble and all(one.rule == "memory" for one in seen.violations):
        figures = {
            "speedup": 1 / change.comparison.ratio,
            "speedup_low": 1 / change.comparison.high,
            "speedup_high": 1 / change.comparison.low,
            "baseline_ms": change.before_ms,
            "optimized_ms": change.after_ms,
            "comparison": comparison,
            "slope": slope,
        }
    verdict: EvaluationVerdict
    if seen.trouble or (comparison is None and not seen.violations):
        verdict, headline = "not measured", f"Not measured: {seen.trouble or 'too few pairs.'}"
    elif seen.violations or comparison is None:
        verdict, headline = "violated", f"Not accepted: {seen.violations[0].message}."
    else:
        verdict, said = _timed_verdict(seen, comparison, slope)
        low, speed, high = (
            f"{value:.3f}" if value > 0.01 else f"{value:.2g}"
            for value in (1 / comparison.high, 1 / comparison.ratio, 1 / comparison.low)
        )
        interval = f"95 % interval {low} to {high}, {units.plural(comparison.pairs, 'pair')}"
        headline = said.format(f"{speed} times as fast ({interval})", interval)
    return EvaluationResult.model_validate({"verdict": verdict, "headline": headline, **figures})


def _timed_verdict(seen: Observed, comparison: Comparison, slope: Comparison | None) -> tuple[EvaluationVerdict, str]:
    """Return what the times say, and the sentence, in which the speed-up with its interval, or the interval, is left out."""
    mirrored = compare_pairs([Pair(-one.log_ratio, one.reference_ms, one.head_ms) for one in _pairs_of(seen.samples)], CONFIDENCE)
    noisy = "Inconclusive: {}; measure on a quieter machine, or with more --pairs."
    plan = seen.plan
    is_far = all(pair.log_ratio > math.log(FAR) for pair in _pairs_of(seen.samples))
    if mirrored is None or plan is None or (comparison.pairs < FEWEST and not is_far):
        return "inconclusive", noisy
    slower_s = statistics.median(max(one.baseline_s[0], one.candidate_s[0]) for one in seen.samples)
    if slower_s < FEWEST_ROUND_TRIPS * plan.round_trip_s:
        return "inconclusive", "Inconclusive: {}, but the calls are too short to judge: use a larger input."
    above, below = comparison.upper_bound, mirrored.upper_bound
    if above < (1 if plan.processes >= FEWEST else 1 / (1 + SAME)) and comparison.p_value <= CHANCE:
        return _faster(seen, comparison, slope, plan.transport_s * 1e3)
    if is_far or (below < 1 / (1 + SAME) and comparison.p_value <= CHANCE):
        return "slower", "Slower: {}."
    if max(above, below) < 1 + SAME:
        return "same", f"As fast as the baseline, within {units.threshold(SAME)} ({{1}})."
    return "inconclusive", noisy


def _faster(
    seen: Observed, comparison: Comparison, slope: Comparison | None, transport_ms: float
) -> tuple[EvaluationVerdict, str]:
    """Return whether the slope and the baseline alone confirm what the pairs say; ``transport_ms``: to hand a result over."""
    needed = comparison.ratio**AGREE
    if slope is None or slope.low > needed:
        return "unconfirmed", "Not confirmed: {}, but K calls more do not show it."
    alone_ms = statistics.median(seen.alone_s) * 1e3 if seen.alone_s else 0.0
    own_ms = statistics.median(_call_ms(one.candidate_s, one.calls) for one in seen.samples)
    if own_ms > needed * alone_ms:
        return (
            "unconfirmed",
            "Not confirmed: {}, but against the baseline alone, when the candidate's processes are gone, it is not.",
        )
    if own_ms * (1 / comparison.high - 1) <= COLD * transport_ms:
        return "faster", f"Faster: {{}}. {HANDS_OVER}"
    return "faster", "Faster: {}."


def _call_ms(seconds: tuple[float, float], calls: int) -> float:
    return sum(seconds) / (3 * calls) * 1e3


def _pairs_of(samples: Sequence[Timed]) -> list[Pair]:
    times = [(_call_ms(one.candidate_s, one.calls), _call_ms(one.baseline_s, one.calls)) for one in samples]
    return [Pair(math.log(head / reference), head, reference) for head, reference in times]


def _slopes_of(samples: Sequence[Timed]) -> list[Pair]:
    """Return the pairs of slopes; none where a message of 2K calls did not take longer than one of K."""
    slopes = [tuple((side[1] - side[0]) / one.calls * 1e3 for side in (one.candidate_s, one.baseline_s)) for one in samples]
    return [Pair(math.log(head / reference), head, reference) for head, reference in slopes if min(head, reference) > 0]


def exit_code(verdict: EvaluationVerdict) -> Exit:
    """Return 0 for a valid evaluation, 1 for a slower or an invalid candidate, 3 where nothing was shown."""
    if verdict in ("violated", "slower"):
        return Exit.REGRESSION
    return Exit.PASS if verdict in ("faster", "same") else Exit.NOT_MEASURED


# The next step of a session: which kind of change is exhausted, and which limit of the machine is reached. The figures come
# from the profile with which the session began.

IN_A_ROW = 3
"""Discards of one kind in a row after which another kind is tried."""
KINDS: tuple[Kind, ...] = get_args(Kind)
AT_FLOOR, AT_RATE, OPAQUE, FULL = 0.7, 0.8, 0.5, 0.8
"""Shares from which a ceiling is reached: launches of a call, copies of the rate of pinned ones, an engine of all kernels;
kernels of a call and their warps of those that fit, both."""
_ENGINE = re.compile(r"tensorrt|\btrt|onnxruntime|\bort_|ExecutionContext|myelin", re.IGNORECASE)
_SYNC = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "aten::item", "aten::_local_scalar_dense")
_PRODUCTS = re.compile(r"gemm|matmul|cutlass|conv|aten::(add)?mm|aten::bmm|wgmma", re.IGNORECASE)


def rotation(session: SessionRecord) -> Rotation | None:
    """Return the kind to go to, once a kind was discarded three times in a row. None: go on. Crashes are no evidence."""
    done = [one for one in session.experiments if one.decision.status != "crash"]
    last = [one.kind for one in done[-IN_A_ROW:] if one.decision.status == "discard"]
    if len(last) < IN_A_ROW or len(set(last)) > 1:
        return None
    exhausted = exhausted_kinds(done)
    later = [kind for kind in KINDS[KINDS.index(last[0]) + 1 :] if kind not in exhausted]
    following = next(iter(later), None)
    why = what_profile_says(following, session) if following else "Every kind of change after it is exhausted."
    return Rotation(exhausted=last[0], next=following, why=why)


def gain_of(name: str, changes: Sequence[Comparison]) -> Gain:
    """Return what changes gained together, each measured against the code before it: errors add up as those of sums do."""
    logs = [math.log(one.ratio) for one in changes]
    low, high = (
        math.hypot(*(math.log(end) - middle for end, middle in zip(ends, logs, strict=True)))
        for ends in ([one.low for one in changes], [one.high for one in changes])
    )
    total = -sum(logs)
    return Gain(name=name, speedup=math.exp(total), low=math.exp(total - high), high=math.exp(total + low))


def exhausted_kinds(experiments: Sequence[ExperimentRecord]) -> set[Kind]:
    """Return the kinds that were discarded three times in a row, and not kept since."""
    by_kind = {kind: [one.decision.status for one in experiments if one.kind == kind] for kind in KINDS}
    return {kind for kind, statuses in by_kind.items() if statuses[-IN_A_ROW:] == ["discard"] * IN_A_ROW}


def what_profile_says(kind: Kind, session: SessionRecord) -> str:
    """Return one sentence of the first profile about a kind of change, in time a call."""
    baseline, activity = session.baseline, session.baseline.activity
    calls = max(1, activity.calls)
    slowest = max(session.noise[1:], key=lambda one: one.median_ms, default=None)
    if kind == "transfer":
        pageable = f", {activity.pageable_copies / calls:.0f} of them pageable" if activity.pageable_copies else ""
        copies = [row for row in baseline.copies if row.name.startswith("Memcpy")] or list(baseline.copies[:1])  # on a CPU
        took_us, count = (sum(column) / PROFILED_CALLS for column in ([row.us for row in copies], [row.count for row in copies]))
        return f"Copies take {took_us:.0f}us a call ({count:.0f} of them{pageable})."
    if kind == "dispatch":
        gaps = f", and the GPU is idle {activity.gaps_s / calls * 1e6:.0f}us between them" if activity.gaps_s is not None else ""
        return f"{_launches(session)} operations are started a call{gaps}."
    if kind == "monolithic":
        where = f"{slowest.name} is the longest stage: {slowest.median_ms * 1e3:.0f}us" if slowest else "No stage is declared"
        return f"{where}. Make one compiled operation of a whole stage, so that all its savings come at once."
    if kind == "synchronisation":
        waits_us = sum(seconds for name, seconds in activity.cpu_s.items() if name.startswith(_SYNC)) / calls * 1e6
        return f"The host waits for the GPU {waits_us:.0f}us a call."
    if kind == "compute":
        total = sum(activity.kernels.values())
        products = sum(seconds for name, seconds in activity.kernels.items() if _PRODUCTS.search(name))
        return (
            f"Matrix products and convolutions are {units.percent(products / total if total else 0)} of the time of all kernels."
        )
    return f"The whole call takes {session.noise[0].median_ms:.3f}ms: overlap its stages across inputs, or batch them."


def ceilings(session: SessionRecord) -> tuple[Ceiling, ...]:
    """Return the limits of this machine beside what the profile shows."""
    activity, floors = session.baseline.activity, session.floors
    whole_us = session.noise[0].median_ms * 1e3
    launches = _launches(session)
    floor_us = launches * floors.launch_us
    found: list[Ceiling] = []
    if session.baseline.by_cuda:  # a CPU launches nothing, and its operators differ in what they cost
        figures = f"{launches} launches × {floors.launch_us:.2f}us = {floor_us:.0f}us of {whole_us:.0f}us"
        found.append(Ceiling(name="launch floor", reached=floor_us >= AT_FLOOR * whole_us, figures=figures))
    buses = {"PCIe to the GPU": ("HtoD", floors.h2d_bytes_per_s), "PCIe from the GPU": ("DtoH", floors.d2h_bytes_per_s)}
    for name, (direction, most) in buses.items():
        copies = [row for row in session.baseline.copies if direction in row.name and row.bytes and row.us]
        if most and copies:
            rate = sum(row.bytes or 0 for row in copies) / sum(row.us for row in copies) * 1e6
            figures = f"{units.rate(rate, 'B/s')} of {units.rate(most, 'B/s')}, which a large copy of pinned memory reaches here"
            found.append(Ceiling.model_validate({"name": name, "reached": rate >= AT_RATE * most, "figures": figures}))
    total = sum(activity.kernels.values())
    engine = sum(seconds for name, seconds in activity.kernels.items() if _ENGINE.search(name))
    if engine:
        figures = f"{units.percent(engine / total)} of the time of all kernels is inside an engine that Python cannot change"
        found.append(Ceiling(name="opaque engine", reached=engine >= OPAQUE * total, figures=figures))
    if (occupancy := session.baseline.occupancy) is not None:
        busy = min(1.0, total / max(1, activity.calls) * 1e6 / whole_us)
        figures = f"kernels run {units.percent(busy)} of the call, and hold {units.percent(occupancy)} of the warps that fit"
        found.append(Ceiling(name="occupancy", reached=min(busy, occupancy) >= FULL, figures=figures))
    return tuple(found)


def is_plateau(session: SessionRecord) -> bool:
    """Return whether there is reason to stop: the last three were no use and a ceiling is reached, or no kind is left."""
    done = [one for one in session.experiments if one.decision.status != "crash"]
    useless = len(done) >= IN_A_ROW and all(one.decision.status == "discard" for one in done[-IN_A_ROW:])
    reached = any(one.reached for one in ceilings(session))
    return (useless and reached) or exhausted_kinds(done) == set(KINDS)


def _launches(session: SessionRecord) -> int:
    """Return the launches of a call; on a CPU, the operators that no other one calls."""
    activity = session.baseline.activity
    return round(activity.launches / max(1, activity.calls))
