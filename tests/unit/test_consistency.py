"""Runs that contradict themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.core.records.run import CaseRun, RunRecord, Shard
from ratchet.github.contradictions import contradictions, with_own_figures
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


PLANNED = examples.PLAN.model_copy(update={"pairs": 6})


@pytest.mark.parametrize(
    "run",
    [
        pages.h200_run(),
        examples.run_record(),
        run_of(with_light(6, 54), plan=PLANNED),
        run_of(with_light(6, 238), plan=PLANNED),
        run_of(CASE, new("a/new"), gone("a/gone"), timed(0.9, "a/b")),
        run_of(CASE, best=(CASE,)),
        run_of(compared(1.0, 1.0, 1.0, failures=(examples.run_record().cases[1].failures[0],))),
        run_of(CaseRun(name="build/*", benchmark="build", config=CASE.config, failures=examples.run_record().cases[1].failures)),
    ],
)
def test_our_own_runs_agree(run: RunRecord) -> None:
    """A recorded run, and runs with new, gone, failed and skipped cases, contradict nothing."""
    assert list(contradictions(run)) == []


def altered(**changes: Any) -> CaseRun:
    return CASE.model_copy(update=changes)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (run_of(CASE, CASE), "the same name"),
        (run_of(CASE, best=(CASE, CASE)), "the same name"),
        (run_of(CASE, best=(timed(1.0, "a/b"),)), "not among the cases"),
        (run_of(CASE, anchors=(CASE, CASE)), "the same name"),
        (run_of(CASE, anchors=(timed(1.0, "a/b"),)), "against the anchor and is not among the cases"),
        (run_of(altered(name="a")), "no case can have"),
        (run_of(altered(name="a/b/c")), "no case can have"),
        (run_of(altered(name="a/@octocat")), "no case can have"),
        (run_of(altered(name=f"a/{'x' * 101}")), "no case can have"),
        (run_of(altered(in_head=False)), "head that was not there"),
        (run_of(altered(workload=None)), "head that was not there"),
        (run_of(altered(skipped="No GPU.")), "head that was not there"),
        (run_of(altered(in_reference=False)), "reference that was not there"),
        (run_of(altered(reference_workload=None)), "reference that was not there"),
        (run_of(gone().model_copy(update={"in_reference": False})), "neither side"),
        (run_of(altered(head=(*CASE.head[:-1], CASE.head[0]))), "twice"),
        (run_of(altered(reference=CASE.reference[:3])), "one side alone"),
        (run_of(altered(head=(blocks(0, 1.0), *CASE.head[1:]))), "one side alone"),
        (run_of(CASE, plan=examples.PLAN.model_copy(update={"pairs": 3})), "more samples"),
        (run_of(CASE, plan=examples.PLAN.model_copy(update={"blocks": 1})), "more samples"),
        (run_of(with_light(7, 1), plan=PLANNED), "more samples"),
        (run_of(with_light(6, 301), plan=PLANNED), "more samples"),
        (run_of(CASE, plan=examples.PLAN.model_copy(update={"pairs": 10**6})), "more than any run takes"),
        (run_of(CASE, shard=Shard(number=1, of=2)), "shard 1/2"),
        (run_of(CASE, warnings=("x",) * 5_001), "5001 warnings, more than the limit of 5000"),
        (run_of(altered(failures=examples.run_record().cases[1].failures * 1_001)), "more than 1000 failures"),
        (run_of(CASE, best=(altered(in_head=False),)), "case against the best commit 1"),
        (run_of(CASE, anchors=(altered(in_head=False),)), "case against the anchor 1"),
    ],
)
def test_what_cannot_stand_together(run: RunRecord, said: str) -> None:
    """A run whose cases, sides, pairs or counts disagree is found out."""
    assert any(said in sentence for sentence in contradictions(run))


def test_figures_come_from_samples() -> None:
    """Whatever figures a record claims, those of its samples take their place; without samples there are none."""
    lying = altered(performance=examples.performance(1e-6), reference_performance=examples.performance(1e6))
    idle = lying.model_copy(update={"name": "a/idle", "head": (), "reference": ()})
    told = with_own_figures(run_of(lying, idle, best=(lying,), anchors=(lying,)))
    for case in (told.cases[0], told.best[0], told.anchors[0]):
        assert case.performance is not None
        assert case.reference_performance is not None
        assert case.performance.median_time_ms == pytest.approx(1.0, rel=0.01)
        assert case.reference_performance.median_time_ms == pytest.approx(1.0, rel=0.01)
    assert (told.cases[1].performance, told.cases[1].reference_performance) == (None, None)


def test_true_figures_stay() -> None:
    """The figures of a recorded run are those that its samples give, which a file keeps to the nanosecond."""
    run = pages.h200_run()
    for before, after in zip(run.cases, with_own_figures(run).cases, strict=True):
        if before.performance and after.performance:
            assert after.performance.median_time_ms == pytest.approx(before.performance.median_time_ms, rel=1e-4)
            assert after.performance.samples == before.performance.samples
