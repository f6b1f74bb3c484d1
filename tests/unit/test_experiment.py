"""`ratchet experiment` without processes: what is kept, how often the best is luck, what to try next, and what scripts read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.common.records import ChecklistAnswer
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.judge.comparison import Pair
from ratchet.core.records.profile import Activity
from ratchet.core.records.verdict import Comparison
from ratchet.core.report.progress import Progress
from ratchet.lab.experiment import (
    HANDOFF,
    SESSION,
    TABLE,
    StartRequest,
    minutes_left,
    open_session,
    save_session,
    start,
    status_of,
)
from ratchet.lab.judge import (
    CHANCE,
    E2E,
    KINDS,
    STAGE,
    ChangeEvidence,
    category_of,
    ceilings,
    change_between,
    clears,
    decide,
    exhausted_kinds,
    is_plateau,
    kind_of,
    looks_that_decide,
    luck,
    rotation,
    settled,
    wants_reruns,
    what_profile_says,
)
from ratchet.lab.records.experiment import (
    WHOLE,
    CopyRow,
    Decision,
    Equality,
    ExperimentRecord,
    Floors,
    GraphCheck,
    HotSpot,
    Kind,
    Noise,
    ProfileBaseline,
    SessionRecord,
    StageChange,
    SuiteOutcome,
    Target,
)
from ratchet.lab.report.experiment import (
    COLUMNS,
    baseline_lines,
    experiment_lines,
    handoff_text,
    read_table,
    status_lines,
    table_text,
)
from ratchet.lab.targets import QUESTIONS, advised, target_text, targets
from tests import examples
from tests.rendered import faults

HOSTILE = "\x1b[31mred\t\n| @everyone <img> ::error::`"


def comparison(ratio: float, half: float = 0.005, p_value: float = 1 / 256, **more: Any) -> Comparison:
    """A comparison whose interval reaches ``half`` to both sides, and whose bound half as far again."""
    usual = {"ratio": ratio, "low": ratio - half, "high": ratio + half, "bound": ratio + 1.5 * half, "pairs": 8}
    return Comparison(confidence=0.95, p_value=p_value, cliffs_delta=0.0, **(usual | more))


def change(name: str, before_ms: float, ratio: float, half: float = 0.005, p_value: float = 1 / 256) -> StageChange:
    return StageChange(name=name, before_ms=before_ms, after_ms=before_ms * ratio, comparison=comparison(ratio, half, p_value))


def experiment(
    number: int, status: str = "discard", kind: Kind = "transfer", ratio: float = 1.0, **more: Any
) -> ExperimentRecord:
    fields = {
        "number": number,
        "started_at": examples.STARTED,
        "wall_s": 12.0,
        "description": "copy from a pinned buffer",
        "stage": "h2d",
        "pattern": "pageable-h2d",
        "category": "transfer",
        "kind": kind,
        "estimate_us": 300.4,
        "reference": examples.REFERENCE,
        "head": examples.HEAD,
        "commit": examples.HEAD.commit,
        "tests": SuiteOutcome(passed=4, failed=0),
        "e2e": change(WHOLE, 10.0, ratio),
        "calls": 144,
        "stages": (change("preprocess", 1.0, 1.0), change("h2d", 0.3, 0.5)),
        "decision": {"status": status, "branch": "e2e" if status == "keep" else "nothing", "reason": "It is so."},
    }
    return ExperimentRecord.model_validate({**fields, **more})


def session(*experiments: ExperimentRecord, **more: Any) -> SessionRecord:
    activity = Activity(
        calls=10,
        wall_s=0.1,
        kernels={"gemm_bf16": 0.06, "elementwise": 0.02},
        launches=290,
        copies_s=0.003,
        pageable_copies=10,
        gaps_s=0.01,
        cpu_s={"cudaStreamSynchronize": 0.02, "aten::add": 0.01},
    )
    spot = HotSpot(name="aten::mm", count=10, cuda_us=60_000, cpu_us=100, shapes="[64, 64]", where="bench/pipe.py:17")
    fields = {
        "started_at": examples.STARTED,
        "command": ("ratchet", "experiment", "start", "pipe"),
        "case": "pipe/default",
        "environment": examples.ENVIRONMENT,
        "start": examples.REFERENCE,
        "tests": ("pytest", "-q"),
        "baseline": ProfileBaseline(
            by_cuda=(spot,),
            by_cpu=(spot,),
            copies=(CopyRow(name="Memcpy HtoD (Pageable -> Device)", count=10, us=3000, bytes=60_000_000),),
            activity=activity,
        ),
        "floors": Floors(launch_us=4.0, h2d_bytes_per_s=50e9, d2h_bytes_per_s=50e9),
        "noise": (
            Noise(name=WHOLE, median_ms=10.0, low=0.99, high=1.01, spread=0.01),
            Noise(name="preprocess", median_ms=1.0, low=0.99, high=1.01, spread=0.01),
            Noise(name="h2d", median_ms=0.3, low=0.99, high=1.01, spread=0.01),
        ),
        "experiments": experiments,
    }
    return SessionRecord.model_validate({**fields, **more})


FAST, UNCLEAR, SAME, SLOW = comparison(0.9), comparison(0.968), comparison(1.0), comparison(1.05)
STAGE_FAST, STAGE_UNCLEAR = comparison(0.8), comparison(0.897)
MEASURED = ChangeEvidence("h2d", e2e=SAME, of_stage=SAME, share=0.2)
ZERO = "0.0 %, interval [−0.5, +0.5] %, bound +0.8 %"
TENTH = "−10.0 %, interval [−10.5, −9.5] %, bound {}"
CONFIRMED = "−10.3 %, interval [−10.8, −9.8] %, bound −9.6 %"
HIDDEN = f"The whole call hides the gain ({ZERO}): other work runs meanwhile, or the part is too small."
PAID = "The stage is faster, but its gain is paid for elsewhere."


def no_gain(whole: str, stage: str = ZERO, more: str = "") -> str:
    return (
        f"No gain beyond doubt: the whole call changed by {whole} and must take 3 % less time; "
        f"h2d changed by {stage} and must take 10 % less time{more}."
    )


def of(**changes: Any) -> ChangeEvidence:
    """What was measured, with these changes."""
    return replace(MEASURED, **changes)


FAILS = SuiteOutcome(passed=3, failed=1)
BADLY = SuiteOutcome(passed=0, failed=0, problem="no")
MICRO = "−15.0 %, interval [−15.5, −14.5] %, bound −14.3 % and must take 20 % less time"


@pytest.mark.parametrize(
    ("evidence", "status", "branch", "reason", "note"),
    [
        (ChangeEvidence("h2d", failure="it raised"), "crash", "crash", "The working tree does not run: it raised.", ""),
        (ChangeEvidence("h2d", failure="x", tests=FAILS), "crash", "crash", "The working tree does not run: x.", ""),
        (of(tests=FAILS, e2e=FAST), "discard", "tests", "Fix or discard: 1 test failed.", ""),
        (of(tests=BADLY), "discard", "tests", "Fix or discard: no.", ""),
        (ChangeEvidence("h2d", failure="it differs", is_wrong=True), "discard", "wrong", "Fix or discard: it differs.", ""),
        (ChangeEvidence("h2d"), "crash", "crash", "Too few pairs were measured to say anything.", ""),
        (of(e2e=FAST), "keep", "e2e", "The whole call takes at least 9.3 % less time (3 % suffice).", ""),
        (of(e2e=UNCLEAR), "discard", "nothing", no_gain("−3.2 %, interval [−3.7, −2.7] %, bound −2.5 %"), ""),
        (
            of(e2e=SLOW, of_stage=STAGE_FAST),
            "discard",
            "slower",
            "The whole call is slower: +5.0 %, interval [+4.5, +5.5] %, bound +5.8 %.",
            PAID,
        ),
        (
            of(of_stage=STAGE_FAST, confirmation=STAGE_FAST),
            "keep",
            "stage confirmed",
            "h2d takes at least 19.5 % less time in 5 warm re-runs.",
            HIDDEN,
        ),
        (
            of(of_stage=STAGE_FAST, confirmation=STAGE_UNCLEAR),
            "discard",
            "stage noise",
            f"h2d did not clear 10 % again in 5 warm re-runs ({CONFIRMED}).",
            "",
        ),
        (of(of_stage=STAGE_FAST), "discard", "stage noise", "The gain of h2d could not be measured again.", ""),
        (of(of_stage=STAGE_UNCLEAR), "discard", "nothing", no_gain(ZERO, CONFIRMED), ""),
        (
            of(micro=comparison(0.7)),
            "keep",
            "micro",
            "The micro-benchmark takes at least 29.3 % less time, and h2d is hot.",
            HIDDEN,
        ),
        (
            of(micro=comparison(0.7), share=0.01),
            "discard",
            "nothing",
            no_gain(ZERO, more="; the micro-benchmark is faster, but h2d is only 1.0 % of the whole call"),
            "",
        ),
        (
            of(micro=comparison(0.85)),
            "discard",
            "nothing",
            no_gain(ZERO, more=f"; the micro-benchmark changed by {MICRO}"),
            "",
        ),
        (MEASURED, "discard", "nothing", no_gain(ZERO), ""),
        (of(e2e=comparison(0.9, pairs=6)), "discard", "nothing", no_gain(TENTH.format("−9.3 %")), ""),
        (of(e2e=comparison(0.9, p_value=0.02)), "discard", "nothing", no_gain(TENTH.format("−9.3 %")), ""),
        (of(e2e=comparison(0.9, bound=1.2)), "discard", "nothing", no_gain(TENTH.format("+20.0 %")), ""),
    ],
)
def test_each_branch_of_the_decision(evidence: ChangeEvidence, status: str, branch: str, reason: str, note: str) -> None:
    """Only an interval clears the seed's thresholds; the reason has the figures, the note says where a gain does not show."""
    decision = decide(evidence)
    assert (decision.status, decision.branch, decision.reason, decision.note) == (status, branch, reason, note)


def test_a_part_that_nobody_measured_is_not_spoken_of() -> None:
    """Where the whole call is the target, its own change is all that a discard names; a share that is not known is none."""
    whole = "No gain beyond doubt: the whole call changed by {} and must take 3 % less time{}."
    assert decide(ChangeEvidence(e2e=SAME, of_stage=SAME)).reason == whole.format(ZERO, "")
    cold = ChangeEvidence("h2d", e2e=SAME, micro=comparison(0.7))
    assert decide(cold).reason == whole.format(ZERO, "; the micro-benchmark is faster, but h2d is only 0.0 % of the whole call")
    slower = decide(of(e2e=SLOW))
    assert (slower.branch, slower.note) == ("slower", "")


LIMIT = comparison(0.95, bound=1 - E2E, p_value=CHANCE)
"""A whole call that just clears its threshold, with as few pairs and as large a p-value as may be."""


@pytest.mark.parametrize(
    ("evidence", "branch"),
    [
        (of(e2e=LIMIT), "e2e"),
        (of(e2e=LIMIT.model_copy(update={"pairs": 7})), "nothing"),
        (of(e2e=LIMIT.model_copy(update={"p_value": 0.0051})), "nothing"),
        (of(e2e=LIMIT.model_copy(update={"bound": 0.9701})), "nothing"),
        (of(e2e=comparison(1.02, low=1.01)), "nothing"),
        (of(e2e=comparison(1.02, low=1.0101)), "slower"),
        (of(of_stage=STAGE_FAST, confirmation=comparison(0.8, high=1 - STAGE)), "stage confirmed"),
        (of(of_stage=STAGE_FAST, confirmation=comparison(0.8, high=0.9001)), "stage noise"),
        (of(micro=comparison(0.7, bound=0.8)), "micro"),
        (of(micro=comparison(0.7), share=0.1), "micro"),
        (of(micro=comparison(0.7), share=0.0999), "nothing"),
        (of(micro=comparison(0.7), share=None), "nothing"),
    ],
)
def test_where_each_threshold_lies(evidence: ChangeEvidence, branch: str) -> None:
    """What just reaches a threshold has reached it, and what just misses it has not."""
    assert decide(evidence).branch == branch


@pytest.mark.parametrize(
    ("evidence", "is_settled", "reruns"),
    [
        (ChangeEvidence("h2d"), False, False),
        (of(e2e=FAST, of_stage=STAGE_FAST), True, False),
        (of(e2e=SLOW, of_stage=STAGE_FAST), True, False),
        (of(of_stage=STAGE_FAST), True, True),
        (of(of_stage=STAGE_UNCLEAR), False, False),
        (MEASURED, True, False),
        (of(of_stage=None), True, False),
        (of(e2e=UNCLEAR), False, False),
        (of(e2e=UNCLEAR, of_stage=STAGE_FAST), False, True),
        (of(stage=WHOLE, of_stage=STAGE_FAST), True, False),
        (of(e2e=comparison(0.98, low=1 - E2E)), False, False),
        (of(of_stage=comparison(0.92, low=1 - STAGE)), False, False),
    ],
)
def test_when_more_pairs_are_taken(evidence: ChangeEvidence, is_settled: bool, reruns: bool) -> None:
    """Pairs go on while a threshold lies inside an interval; re-runs are for a stage that clears if the whole call does not."""
    assert (settled(evidence), wants_reruns(evidence)) == (is_settled, reruns)


@pytest.mark.parametrize(("pairs", "at"), [(3, (3,)), (7, (7,)), (8, (8,)), (9, (8, 9)), (20, (8, 12, 20))])
def test_fewer_than_eight_pairs_are_looked_at_only_where_there_are_no_more(pairs: int, at: tuple[int, ...]) -> None:
    """Seven pairs prove nothing, so the first look is at eight, or at all that there are."""
    assert looks_that_decide(pairs) == at


def test_a_gain_that_noise_masks_is_said_to_be_masked() -> None:
    """Where the whole call may have gained as much as the stage, it is too noisy to show that."""
    noisy = of(e2e=comparison(0.9, 0.1), of_stage=STAGE_FAST, confirmation=STAGE_FAST)
    assert decide(noisy).note == (
        "The whole call is too noisy here to show the gain (−10.0 %, interval [−20.0, 0.0] %, bound +5.0 %)."
    )
    edge = replace(noisy, e2e=comparison(0.98, low=1 - E2E))
    assert decide(edge).note.startswith("The whole call is too noisy here")


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    return comparison(draw(st.floats(0.5, 1.5)), draw(st.floats(0.001, 0.2)))


MAYBE = st.none() | comparisons()
EVIDENCE = st.builds(
    ChangeEvidence,
    stage=st.sampled_from(["h2d", WHOLE]),
    failure=st.sampled_from(["", "it raised"]),
    is_wrong=st.booleans(),
    tests=st.none() | st.builds(SuiteOutcome, passed=st.integers(0, 3), failed=st.integers(0, 3)),
    e2e=MAYBE,
    of_stage=MAYBE,
    confirmation=MAYBE,
    micro=MAYBE,
    share=st.none() | st.floats(0, 1),
)


@given(EVIDENCE)
def test_nothing_is_kept_without_a_bound_that_clears_a_threshold(evidence: ChangeEvidence) -> None:
    """Whatever else is known: no keep with a failure or failing tests, and none by means alone."""
    decision = decide(evidence)
    if decision.status != "keep":
        return
    assert not evidence.failure
    assert evidence.tests is None or evidence.tests.failed == 0
    assert evidence.e2e is not None
    stage = evidence.of_stage is not None and clears(evidence.of_stage, STAGE) and evidence.stage != WHOLE
    confirmed = evidence.confirmation is not None and evidence.confirmation.high <= 1 - STAGE
    micro = evidence.micro is not None and evidence.micro.high <= 0.8 and (evidence.share or 0) >= 0.1
    assert clears(evidence.e2e, E2E) or (stage and confirmed) or micro
    assert evidence.e2e.low <= 1.01


@given(EVIDENCE)
def test_more_pairs_are_taken_only_where_they_could_decide(evidence: ChangeEvidence) -> None:
    """What is settled stays so with the same intervals, and re-runs are asked for only where they alone decide."""
    if wants_reruns(evidence) and not evidence.failure and not evidence.is_wrong and evidence.tests is None:
        assert settled(evidence) or evidence.e2e is not None
        lost = decide(replace(evidence, confirmation=comparison(1.0)))
        won = decide(replace(evidence, confirmation=comparison(0.5)))
        assert (lost.status, won.status) == ("discard", "keep")
    if evidence.e2e is not None and clears(evidence.e2e, E2E):
        assert settled(evidence)


@given(EVIDENCE, st.floats(0.01, 0.3))
def test_a_faster_whole_call_never_turns_keep_into_discard(evidence: ChangeEvidence, less: float) -> None:
    """The decision is monotone in the time of the whole call."""
    if evidence.e2e is None or decide(evidence).status != "keep":
        return
    one = evidence.e2e
    faster = one.model_copy(update={name: getattr(one, name) - less * 0.1 for name in ("ratio", "low", "high", "bound")})
    assert decide(replace(evidence, e2e=faster)).status == "keep"


def test_times_agree_with_the_ratio_of_the_pairs() -> None:
    """Before and after differ by exactly what the interval is about; two pairs are too few."""
    pairs = [Pair(-0.105, 9.0, 10.0), Pair(-0.106, 9.0, 10.0), Pair(-0.104, 9.0, 10.0)]
    found = change_between("h2d", pairs)
    assert found is not None
    assert found.after_ms / found.before_ms == pytest.approx(found.comparison.ratio)
    assert found.after_ms * found.before_ms == pytest.approx(9.0 * 10.0)
    assert change_between("h2d", pairs[:2]) is None


def test_luck_grows_with_the_number_of_experiments() -> None:
    """The best of one is luck as often as its p-value says; of many, more often; what is slower is luck for sure."""
    best = experiment(1, ratio=0.9, e2e=change(WHOLE, 10, 0.9, p_value=0.01))
    others = [experiment(number, e2e=change(WHOLE, 10, 0.99, p_value=0.5)) for number in range(2, 11)]
    alone, among = luck([best]), luck([best, *others])
    assert alone is not None
    assert among is not None
    assert alone.p_value == pytest.approx(0.01)
    assert (among.best, among.of) == (1, 10)
    assert among.p_value == pytest.approx(1 - 0.99**10)
    assert luck([experiment(1, e2e=None)]) is None
    slower = luck([experiment(1, ratio=1.2)])
    assert slower is not None
    assert slower.p_value == 1


@pytest.mark.parametrize(
    ("pattern", "category", "kind"),
    [
        ("pageable-h2d", "transfer", "transfer"),
        ("kernel_fusion", "dispatch", "dispatch"),
        ("monolithic-postprocess", "dispatch", "monolithic"),
        ("stream-block", "sync", "synchronisation"),
        ("precision", "compute", "compute"),
        ("pipeline-frames", None, "architectural"),
        ("Batch_requests", None, "architectural"),
        ("architecture", None, "architectural"),
        ("Monolithic_Preprocess", "dispatch", "monolithic"),
    ],
)
def test_patterns_have_a_category_and_a_kind(pattern: str, category: Any, kind: str) -> None:
    """The seed's patterns are known; another one needs a category."""
    assert category_of(pattern) == category
    assert kind_of(pattern, category or "compute") == kind


def test_three_discards_of_one_kind_rotate_to_the_next() -> None:
    """Two do not, a keep between them starts the count anew, and a crash is no evidence."""
    three = [experiment(number) for number in (1, 2, 3)]
    assert rotation(session(*three[:2])) is None
    assert rotation(session(three[0], experiment(2, "keep"), *three[1:])) is None
    assert rotation(session(*three[:2], experiment(3, "crash"))) is None
    assert rotation(session(*three[:2], experiment(3, kind="dispatch"))) is None
    found = rotation(session(*three))
    assert found is not None
    assert (found.exhausted, found.next) == ("transfer", "dispatch")
    assert found.why == "29 operations are started a call, and the GPU is idle 1000us between them."
    assert rotation(session(*three[:2], experiment(3, "crash"), three[2])) == found
    everything = [experiment(number, kind=kind) for kind in reversed(KINDS) for number in (1, 2, 3)]
    last = rotation(session(*everything))
    assert last is not None
    assert (last.exhausted, last.next, last.why) == (KINDS[0], None, "Every kind of change after it is exhausted.")
    assert exhausted_kinds(everything) == set(KINDS)


@pytest.mark.parametrize(
    ("statuses", "is_exhausted"),
    [("dd", False), ("ddd", True), ("ddkdd", False), ("ddkddd", True), ("dddk", False), ("dkdkd", False)],
)
def test_a_kind_is_exhausted_by_three_discards_in_a_row(statuses: str, is_exhausted: bool) -> None:
    """A keep between them, or after them, starts the count anew; discards of another kind do not matter."""
    named = {"d": "discard", "k": "keep"}
    done = [experiment(number, named[status]) for number, status in enumerate(statuses, 1)]
    others = [experiment(number, kind="compute") for number in (1, 2)]
    assert exhausted_kinds([*others, *done]) == ({"transfer"} if is_exhausted else set())


ONE_OPERATION = "Make one compiled operation of a whole stage, so that all its savings come at once."


def test_the_profile_says_something_about_each_kind() -> None:
    """One sentence with a figure for each kind that the rotation can name."""
    assert {kind: what_profile_says(kind, session()) for kind in KINDS} == {
        "transfer": "Copies take 300us a call (1 of them, 1 of them pageable).",
        "dispatch": "29 operations are started a call, and the GPU is idle 1000us between them.",
        "monolithic": f"preprocess is the longest stage: 1000us. {ONE_OPERATION}",
        "synchronisation": "The host waits for the GPU 2000us a call.",
        "compute": "Matrix products and convolutions are 75 % of the time of all kernels.",
        "architectural": "The whole call takes 10.000ms: overlap its stages across inputs, or batch them.",
    }


def test_the_profile_says_what_little_it_knows() -> None:
    """Without stages, kernels, gaps, copies of a GPU or calls, the sentences do without them."""
    baseline = session().baseline
    rows = (CopyRow(name="aten::copy_", count=20, us=4000), CopyRow(name="aten::to", count=5, us=9000))
    waits = {"cudaDeviceSynchronize": 1e-4}
    bare = session(
        baseline=baseline.model_copy(update={"copies": rows, "activity": Activity(calls=0, wall_s=0.1, launches=3, cpu_s=waits)}),
        noise=session().noise[:1],
    )
    assert what_profile_says("transfer", bare) == "Copies take 400us a call (2 of them)."
    assert what_profile_says("dispatch", bare) == "3 operations are started a call."
    assert what_profile_says("monolithic", bare) == f"No stage is declared. {ONE_OPERATION}"
    assert what_profile_says("synchronisation", bare) == "The host waits for the GPU 100us a call."
    assert what_profile_says("compute", bare) == "Matrix products and convolutions are 0 % of the time of all kernels."
    both = baseline.model_copy(update={"copies": (*baseline.copies, *rows, CopyRow(name="Memcpy DtoH", count=20, us=1000))})
    assert what_profile_says("transfer", session(baseline=both)) == "Copies take 400us a call (3 of them, 1 of them pageable)."


def test_ceilings_are_reached_by_their_figures() -> None:
    """Launches, copies near the rate of pinned memory, and an engine; a plateau takes three useless experiments beside one."""
    found = {one.name: one for one in ceilings(session())}
    assert not any(one.reached for one in found.values())
    assert found["launch floor"].figures == "29 launches × 4.00us = 116us of 10000us"
    assert found["PCIe to the GPU"].figures == ("20.0 GB/s of 50.0 GB/s, which a large copy of pinned memory reaches here")
    slow_bus = session(floors=Floors(launch_us=300.0, h2d_bytes_per_s=22e9))
    assert [one.reached for one in ceilings(slow_bus)] == [True, True]
    three = tuple(experiment(number) for number in (1, 2, 3))
    assert is_plateau(slow_bus.model_copy(update={"experiments": three}))
    assert not is_plateau(slow_bus)
    assert not is_plateau(session(*three))
    crash, keep = experiment(3, "crash"), experiment(4, "keep")
    assert is_plateau(slow_bus.model_copy(update={"experiments": (*three[:2], crash, three[2])}))
    assert not is_plateau(slow_bus.model_copy(update={"experiments": (*three[:2], keep, three[2])}))
    on_cpu = session().baseline.model_copy(update={"by_cuda": ()})
    assert ceilings(session(baseline=on_cpu, floors=Floors(launch_us=300.0))) == ()
    baseline = session().baseline
    inside = baseline.model_copy(
        update={"activity": baseline.activity.model_copy(update={"kernels": {"trt_conv": 0.45, "relu": 0.05}})}
    )
    engine = ceilings(session(baseline=inside))[-1]
    assert (engine.name, engine.reached) == ("opaque engine", True)
    assert engine.figures == "90 % of the time of all kernels is inside an engine that Python cannot change"
    back = CopyRow(name="Memcpy DtoH (Device -> Pageable)", count=10, us=1000, bytes=45_000_000)
    copied = ceilings(session(baseline=baseline.model_copy(update={"copies": (back,)})))[-1]
    assert (copied.name, copied.reached) == ("PCIe from the GPU", True)
    assert copied.figures == "45.0 GB/s of 50.0 GB/s, which a large copy of pinned memory reaches here"
    for occupancy, kernel_s, reached in ((0.9, 0.09, True), (0.9, 0.04, False), (0.5, 0.09, False), (0.9, 0.2, True)):
        activity = baseline.activity.model_copy(update={"kernels": {"conv": kernel_s}})
        full = baseline.model_copy(update={"activity": activity, "occupancy": occupancy})
        assert (last := ceilings(session(baseline=full))[-1]).reached == reached
        figures = (
            f"kernels run {min(100, kernel_s * 1e3):.0f} % of the call, and hold {occupancy * 100:.0f} % of the warps that fit"
        )
        assert (last.name, last.figures) == ("occupancy", figures)
    uncounted = Activity(calls=0, wall_s=0.1, kernels={"conv": 0.009})
    full = baseline.model_copy(update={"activity": uncounted, "occupancy": 0.9})
    assert ceilings(session(baseline=full))[-1].figures.startswith("kernels run 90 % of the call,")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"stage": "postprocess", "pattern": "dispatch-gaps", "category": "dispatch", "estimate_us": 1021, "launches": 29},
            "postprocess.dispatch-gaps (1021us, 29 kernels — [dispatch] fusion candidate)",
        ),
        ({"pattern": "stream_block", "category": "sync", "launches": 29}, "h2d.stream_block (300us — [sync] synchronize->event)"),
        ({"pattern": "odd", "category": "dispatch", "launches": 1}, "h2d.odd (300us, 1 kernel, [dispatch])"),
        ({"pattern": "odd", "category": "dispatch"}, "h2d.odd (300us, [dispatch])"),
    ],
)
def test_a_target_names_its_kernels_and_what_it_is_a_candidate_for(fields: dict[str, Any], said: str) -> None:
    """Kernels where launches are the matter, and the candidate of a known pattern, as in the seed's examples."""
    assert next(experiment_lines(experiment(1, **fields))) == f"[experiment 1] Target: {said}"


STAGES = {
    "preprocess": Activity(calls=10, wall_s=0.1, launches=290, gaps_s=0.004, copies_s=0.002, pageable_copies=20),
    "h2d": Activity(calls=10, wall_s=0.1, launches=10, cpu_s={"cudaStreamSynchronize": 0.001}, allocation_s=1e-6),
}


def test_targets_come_from_the_profile_and_from_advice_the_costliest_first() -> None:
    """What costs less than the whole call could show is none, nor what was tried; no cost is above the time of its stage."""
    named = Target(stage=WHOLE, pattern="gemm-loop", category="dispatch", cost_us=4000, count=40, source="advise", where="a.py:3")
    one = session(stages_activity=STAGES, advised=(named,))
    lines = [target_text(target, 10_000, on_gpu=True) for target in targets(one)]
    assert lines == [
        "e2e.gemm-loop (up to 4000us a call, 40 %, 40 kernels — [dispatch]), by advise, a.py:3",
        "preprocess.dispatch-gaps (up to 400us a call, 4 %, 29 kernels — [dispatch] fusion candidate), by profile",
    ]
    slow = session(stages_activity={"h2d": STAGES["preprocess"]}, noise=(*one.noise[:1], one.noise[2]))
    assert [target.cost_us for target in targets(slow)] == [300]
    assert targets(session(experiment(1, stage=WHOLE, pattern="gemm-loop"), advised=(named,))) == ()
    pattern = advice_on("gemm-loop")
    assert advised(pattern, one) == (named.model_copy(update={"stage": "h2d", "cost_us": 5000.0, "count": 20}),)


def advice_on(pattern: str) -> SimpleNamespace:
    """Advice on a trace of half a second, in which one pattern in the stage h2d costs half of the time."""
    where = SimpleNamespace(function="h2d", file="a.py", line=3)
    finding = SimpleNamespace(where=where, pattern=pattern, category="dispatch", share=0.5, times=1000)
    return SimpleNamespace(findings=(finding,), steady_us=500_000)


@pytest.mark.parametrize(
    ("experiments", "escalates"),
    [
        ((experiment(1), experiment(2, kind="dispatch")), True),
        ((experiment(1), experiment(2, "keep", decision=Decision(status="keep", branch="stage confirmed", reason="x"))), True),
        ((experiment(1), experiment(2, "crash"), experiment(3)), True),
        ((experiment(1), experiment(2, "keep", ratio=0.9)), False),
        ((experiment(1), experiment(2, stages=())), False),
        ((experiment(1), experiment(2, stages=(), micro=change("tiny", 1.0, 0.1))), True),
        ((experiment(1), experiment(2, kind="monolithic")), False),
        ((experiment(1),), False),
    ],
)
def test_gains_that_vanish_in_the_whole_call_ask_for_one_operation(
    experiments: tuple[ExperimentRecord, ...], escalates: bool
) -> None:
    """Two stages or micro-benchmarks in a row that got faster, and a call that did not: replace the stage as a whole."""
    text = status_of(session(*experiments)).escalation
    assert bool(text) == escalates
    assert text == "" or ("--pattern monolithic-h2d" in text and category_of("monolithic-h2d") == "dispatch")


def test_the_ten_questions_are_asked_or_answered() -> None:
    """An answer from the trace stands in the place of its question; the others stay questions."""
    known = ChecklistAnswer(question="Pattern", answer="gemm-loop [dispatch]", from_data=True)
    unknown = ChecklistAnswer(question="Mechanism", answer="not visible", from_data=False)
    lines = list(baseline_lines(session(checklist=(known, unknown))))
    asked = lines[lines.index("=== Ten questions before the first change ===") + 1 :][:10]
    assert asked[0] == "   1. Pattern: gemm-loop [dispatch]"
    assert asked[6].startswith("   7. Mechanism: not in the trace; how does the change save time")
    assert [line.split(". ", 1)[1].split(":")[0] for line in asked] == list(QUESTIONS)


def test_the_table_has_the_seeds_columns() -> None:
    """In their order; a figure that was not measured is nan, and text of a user makes no column or line of its own."""
    names = (
        "commit target_test stage gpu_baseline_us gpu_optimized_us gpu_speedup e2e_baseline_ms e2e_optimized_ms e2e_speedup "
        "tests_passed tests_failed status pattern description"
    )
    crash = experiment(2, "crash", e2e=None, stages=(), tests=None, description=HOSTILE)
    text = table_text(session(experiment(1, "keep", ratio=0.95), crash))
    header, first, second = text.splitlines()
    assert header.split("\t") == names.split() == list(COLUMNS)
    assert first.split("\t")[:9] == ["3f2a1bc98d", "pipe/default", "h2d", "300.0", "150.0", "2.000", "10.0000", "9.5000", "1.053"]
    assert second.split("\t")[3:12] == ["nan"] * 6 + ["0", "0", "crash"]
    assert len(second.split("\t")) == len(COLUMNS)
    assert read_table(text)[0].pattern == "pageable-h2d"
    again = session(earlier=read_table(text))
    assert table_text(again) == text
    with pytest.raises(ValueError, match="its columns are"):
        read_table("a\tb\n1\t2\n")


def test_the_texts_of_a_session(golden: Callable[[str, str], None]) -> None:
    """What start, run, status and handoff show, with hostile text in every place that a user or code under test writes."""
    odd = experiment(
        2,
        pattern=HOSTILE,
        description=HOSTILE,
        equality=Equality(bitwise=False, close=False, largest=0.5, note=HOSTILE),
        graph=GraphCheck(head="breaks", reference="safe", why=HOSTILE),
        notes=(HOSTILE,),
        decision=Decision(status="discard", branch="nothing", reason=HOSTILE, note=HOSTILE),
    )
    whole = session(experiment(1, "keep", ratio=0.95, confirmation=change("h2d", 0.3, 0.5)), odd, minutes=60)
    status = status_of(whole, whole.started_at + timedelta(minutes=12))
    lines = [*baseline_lines(whole), *experiment_lines(odd), *status_lines(status)]
    assert all(line.isprintable() for line in lines)
    golden("experiment_lines.txt", "\n".join(lines) + "\n")
    stuck = session(*(experiment(number) for number in (1, 2, 3)), floors=Floors(launch_us=300.0))
    golden("experiment_stuck.txt", "\n".join(status_lines(status_of(stuck))) + "\n")
    text = handoff_text(whole, status_of(whole))
    golden("handoff.md", text)
    assert set(faults(text)) == {"tag h1", "tag h2"}


def test_a_session_survives_a_kill_between_its_files(tmp_path: Path) -> None:
    """The record is written first; what is made from it is written again when the session is opened."""
    with pytest.raises(UsageError, match="none begins without a profile"):
        open_session(tmp_path)
    saved = session(experiment(1, "keep", ratio=0.95))
    save_session(tmp_path, saved)
    texts = {name: (tmp_path / name).read_text(encoding="utf-8") for name in (TABLE, HANDOFF)}
    (tmp_path / TABLE).write_text("cut off", encoding="utf-8")
    (tmp_path / HANDOFF).unlink()
    assert open_session(tmp_path) == saved
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in texts} == texts
    (tmp_path / SESSION).write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match="is not JSON"):
        open_session(tmp_path)


@contextlib.contextmanager
def waited_for(*, meanwhile: Callable[[], None] = lambda: None, **fields: Any) -> Iterator[SimpleNamespace]:
    """Stand for something that takes its time to begin."""
    meanwhile()
    yield SimpleNamespace(**fields)


def test_an_experiment_that_ends_while_a_session_begins_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of a new session has the experiments that ended while its start waited for the device; an open one is refused."""
    first = experiment(1)
    save_session(tmp_path, session(first))
    profiled = SimpleNamespace(baseline=session().baseline, stages={}, floors=session().floors)
    timed = SimpleNamespace(name="pipe/default")
    waiting: dict[str, Any] = {"warnings": (), "meanwhile": lambda: save_session(tmp_path, session(first, experiment(2, "keep")))}
    repository = SimpleNamespace(root=tmp_path, working_snapshot=lambda _: SimpleNamespace(tree=examples.REFERENCE))
    stand_ins: dict[str, Callable[..., Any]] = {
        "Repository": lambda _: repository,
        "settings_of": lambda *_: SimpleNamespace(results="", pairs=8),
        "own_output_globs": lambda *_: (),
        "machine_of": lambda *_: waited_for(**waiting),
        "worktrees": lambda *_: waited_for(head=tmp_path, reference=tmp_path),
        "watched": lambda *_: waited_for(),
        "open_experiment": lambda *_: waited_for(begun=lambda _: (profiled, timed)),
        "environment_of": lambda _: examples.ENVIRONMENT,
        "_noise": lambda _: session().noise,
        "_with_advice": lambda begun, *_: begun,
        **dict.fromkeys(("build_twice", "tree_specs", "plan_of_case"), lambda *_: None),
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(f"ratchet.lab.experiment.{name}", stand_in)
    request: Any = SimpleNamespace(folder=tmp_path, devices=None, patterns=("pipe",), command=())
    start(StartRequest(again=True), request, Progress(), {})
    assert [row.status for row in open_session(tmp_path).earlier] == ["discard", "keep"]
    (tmp_path / SESSION).unlink()
    with pytest.raises(UsageError, match="is open, with 2 experiments"):
        start(StartRequest(), request, Progress(), {})


def test_the_reference_is_what_was_kept_last() -> None:
    """A discard does not move it; its times become the next estimate, and the gains that the whole call shows multiply."""
    kept = experiment(1, "keep", ratio=0.5, head=examples.HEAD)
    one = session(kept, experiment(2, ratio=0.9))
    assert (session().reference, one.reference) == (examples.REFERENCE, examples.HEAD)
    assert one.time_us("h2d") == pytest.approx(150)
    by_stage = Decision(status="keep", branch="stage confirmed", reason="It is so.")
    hidden = experiment(3, ratio=0.5, decision=by_stage)
    whole, stage = status_of(session(hidden, kept, experiment(2, "keep", ratio=0.5))).gains
    assert (whole.name, stage.name) == (WHOLE, "h2d")
    assert (whole.speedup, stage.speedup) == (pytest.approx(4), pytest.approx(2))
    assert 1 / (0.505 * 0.505) < whole.low < whole.speedup < whole.high < 1 / (0.495 * 0.495)


def test_a_kept_change_is_never_told_as_no_gain() -> None:
    """Where only a stage shows it, the stage is named with its factor; with nothing kept, no factor is told at all."""
    by_stage = Decision(status="keep", branch="stage confirmed", reason="It is so.")
    first, *_ = status_lines(status_of(session(experiment(1, ratio=0.93, decision=by_stage))))
    assert first.endswith("h2d is 2.000 [1.980, 2.020] times as fast, which the whole call is too noisy to show.")
    assert "as at the start" not in first
    assert "times" not in next(iter(status_lines(status_of(session(experiment(1))))))


def test_the_way_back_after_a_discard() -> None:
    """After a change that was not kept, a command names the content of what was kept last; after a keep there is none."""
    kept = experiment(1, "keep", ratio=0.5, head=examples.HEAD.model_copy(update={"content": "c0ffee" * 6 + "c0de"}))
    lines = list(status_lines(status_of(session(kept, experiment(2)))))
    assert sum("git restore --source=c0ffeec0ffee --worktree :/" in line for line in lines) == 1
    assert status_of(session(experiment(1))).restore.split()[2] == f"--source={examples.REFERENCE.content[:12]}"
    assert status_of(session(experiment(1), kept)).restore == status_of(session()).restore == ""


def test_a_budget_ends() -> None:
    """Minutes count from the start; without a budget there is no end."""
    now = datetime(2026, 3, 14, 16, 9, 26, tzinfo=UTC)
    assert minutes_left(session(), now) is None
    assert minutes_left(session(minutes=90), now) == 30
    assert minutes_left(session(minutes=60), now) == 0
