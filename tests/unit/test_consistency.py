"""Runs that contradict themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ratchet.core.judge.comparison import performance
from ratchet.core.records.run import CaseRun, LostWorker, RunRecord, Shard
from ratchet.core.report.page import MOST_CASES
from ratchet.github.contradictions import MOST_BLOCKS, MOST_FAILURES, MOST_LIGHT, MOST_PAIRS, MOST_WARNINGS, with_own_figures
from tests import examples, pages
from tests.examples import blocks, compared, run_of
from tests.history_examples import gone, new, timed

CASE = timed(1.0)


def with_light(pairs: int, light: int) -> CaseRun:
    """Return a case of so many pairs, and light ones after them."""
    sides = {
        side: tuple(blocks(pair, 1.0, is_light=pair >= pairs) for pair in range(pairs + light)) for side in ("head", "reference")
    }
    return compared(name="a/light", **sides)


def altered(**changes: Any) -> CaseRun:
    return CASE.model_copy(update=changes)


PLANNED = examples.PLAN.model_copy(update={"pairs": 6})


FAILURE = examples.run_record().cases[1].failures[0]
LOST = LostWorker(side="head", stage="measure", how="was killed (SIGKILL)")


@pytest.mark.parametrize(
    "run",
    [
        pages.h200_run(),
        examples.run_record(),
        run_of(with_light(6, 54), plan=PLANNED),
        run_of(with_light(6, MOST_LIGHT), plan=PLANNED),
        run_of(CASE, new("a/new"), gone("a/gone"), timed(0.9, "a/b")),
        run_of(CASE, best=(CASE,)),
        run_of(compared(1.0, 1.0, 1.0, failures=(FAILURE,))),
        run_of(CaseRun(name="build/*", benchmark="build", config=CASE.config, failures=(FAILURE,))),
        run_of(CASE, plan=examples.PLAN.model_copy(update={"pairs": MOST_PAIRS, "blocks": MOST_BLOCKS})),
        run_of(CASE, warnings=("x",) * MOST_WARNINGS),
        run_of(altered(failures=(FAILURE,) * (MOST_FAILURES - 400), lost=(LOST,) * 400)),
        run_of(*(gone().model_copy(update={"name": f"a/{number}"}) for number in range(MOST_CASES))),
    ],
)
def test_our_own_runs_agree(run: RunRecord) -> None:
    """A recorded run, runs with new, gone, failed and skipped cases, and those at the limits contradict nothing."""
    assert with_own_figures(run)[1] == []


ABSENT = "has samples of a {} that was not there, or was skipped"
MORE = "The case 1 has more samples of its head than were planned."
ONE_SIDE = "The case 1 has pairs of which one side alone was kept."
TWICE = "The case 1 has a pair or a block of its head twice."
NO_NAME = "The case 1 has a name that no case can have."
SAME_NAME = "Two of its cases have the same name."
FAILURES = "The case 1 has more than 1000 failures and lost workers."
BLOCK_TWICE = tuple(replace(worker, blocks=worker.blocks[:1] * 2) for worker in CASE.head)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (run_of(CASE, CASE), SAME_NAME),
        (run_of(CASE, best=(CASE, CASE)), SAME_NAME),
        (run_of(CASE, anchors=(CASE, CASE)), SAME_NAME),
        (run_of(CASE, best=(timed(1.0, "a/b"),)), "A case was measured against the best commit and is not among the cases."),
        (run_of(CASE, anchors=(timed(1.0, "a/b"),)), "A case was measured against the anchor and is not among the cases."),
        (run_of(altered(name="a")), NO_NAME),
        (run_of(altered(name="a/b/c")), NO_NAME),
        (run_of(altered(name="a/b\u3164c")), NO_NAME),
        (run_of(altered(name="\uffa0/b")), NO_NAME),
        (run_of(altered(name="a/@octocat")), NO_NAME),
        (run_of(altered(name=f"a/{'x' * 101}")), NO_NAME),
        (run_of(altered(in_head=False)), f"The case 1 {ABSENT.format('head')}."),
        (run_of(altered(workload=None)), f"The case 1 {ABSENT.format('head')}."),
        (run_of(altered(skipped="No GPU.")), f"The case 1 {ABSENT.format('head')}."),
        (run_of(altered(in_reference=False)), f"The case 1 {ABSENT.format('reference')}."),
        (run_of(altered(reference_workload=None)), f"The case 1 {ABSENT.format('reference')}."),
        (run_of(gone().model_copy(update={"in_reference": False})), "The case 1 exists on neither side."),
        (run_of(altered(head=(*CASE.head[:-1], CASE.head[0]))), TWICE),
        (run_of(altered(head=BLOCK_TWICE)), TWICE),
        (run_of(altered(reference=CASE.reference[:3])), ONE_SIDE),
        (run_of(altered(head=(blocks(0, 1.0), *CASE.head[1:]))), ONE_SIDE),
        (run_of(CASE, plan=examples.PLAN.model_copy(update={"pairs": 3})), MORE),
        (run_of(CASE, plan=examples.PLAN.model_copy(update={"blocks": 1})), MORE),
        (run_of(with_light(7, 1), plan=PLANNED), MORE),
        (run_of(with_light(6, 301), plan=PLANNED), MORE),
        (
            run_of(CASE, plan=examples.PLAN.model_copy(update={"pairs": 1_001})),
            "Its plan has 1001 pairs of 8 blocks, more than any run takes.",
        ),
        (
            run_of(CASE, plan=examples.PLAN.model_copy(update={"blocks": 1_001})),
            "Its plan has 100 pairs of 1001 blocks, more than any run takes.",
        ),
        (run_of(CASE, shard=Shard(number=1, of=2)), "It is shard 1/2 of a run: merge all shards first."),
        (run_of(*(CASE,) * 5_001), "It has 5001 cases, more than the limit of 5000."),
        (run_of(CASE, warnings=("x",) * 5_001), "It has 5001 warnings, more than the limit of 5000."),
        (run_of(altered(failures=(FAILURE,) * 1_001)), FAILURES),
        (run_of(altered(failures=(FAILURE,) * 601, lost=(LOST,) * 400)), FAILURES),
        (run_of(CASE, wall_s=31 * 86_400.0), "It took more than 30 days, or began before 2000 or after 2999."),
        (run_of(CASE, best=(altered(in_head=False),)), f"The case against the best commit 1 {ABSENT.format('head')}."),
        (run_of(CASE, anchors=(altered(in_head=False),)), f"The case against the anchor 1 {ABSENT.format('head')}."),
        (run_of(new("a/new"), altered(skipped="No GPU.")), f"The case 2 {ABSENT.format('head')}."),
    ],
)
def test_what_cannot_stand_together(run: RunRecord, said: str) -> None:
    """A run whose cases, sides, pairs or counts disagree is found out, and the sentence says where."""
    assert said in with_own_figures(run)[1]


def test_figures_come_from_samples() -> None:
    """Whatever figures a record claims, those of its samples take their place; without samples or work there are none."""
    lying = altered(performance=examples.performance(1e-6), reference_performance=examples.performance(1e6))
    idle = lying.model_copy(update={"name": "a/idle", "head": (), "reference": ()})
    unknown = idle.model_copy(update={"name": "a/unknown", "workload": None, "reference_workload": None})
    told, wrong = with_own_figures(run_of(lying, idle, unknown, best=(lying,), anchors=(lying,)))
    assert wrong == []
    for case in (told.cases[0], told.best[0], told.anchors[0]):
        assert case.performance == performance(CASE.head, examples.WORKLOAD, 0.95)
        assert case.reference_performance == performance(CASE.reference, examples.WORKLOAD, 0.95)
    for case in told.cases[1:]:
        assert (case.performance, case.reference_performance) == (None, None)


def test_true_figures_stay() -> None:
    """The figures of a recorded run are those that its samples give, which a file keeps to the nanosecond."""
    run = pages.h200_run()
    for before, after in zip(run.cases, with_own_figures(run)[0].cases, strict=True):
        if before.performance and after.performance:
            assert after.performance.median_time_ms == pytest.approx(before.performance.median_time_ms, rel=1e-4)
            assert after.performance.samples == before.performance.samples
