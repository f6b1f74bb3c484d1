"""Shards of one check, and the run that they are together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet.core.errors import Exit, IncompleteError, UsageError
from ratchet.core.records.run import CaseRun, RunRecord, Shard, Tree
from ratchet.shards.judge import joined
from tests.examples import STARTED, run_of
from tests.history_examples import timed

WHOLE = tuple(timed(1.0 + number / 1000, f"attention/case_{number}") for number in range(7))


def split(cases: Sequence[CaseRun], of: int, **changes: Any) -> list[RunRecord]:
    """The shards of a check of these cases, as `ratchet check --shard` records them."""
    whole = run_of(*cases)
    policy = whole.policy.model_copy(update={"false_alarm": whole.policy.false_alarm / of})
    shards = [Shard(number=number, of=of) for number in range(1, of + 1)]
    return [run_of(*shard.part(cases), shard=shard, policy=policy, **changes) for shard in shards]


@settings(deadline=None)
@given(count=st.integers(0, 7), of=st.integers(1, 9), order=st.randoms(use_true_random=False))
def test_joined_shards_are_the_whole_check(count: int, of: int, order: Any) -> None:
    """However a check is split, and in whatever order its shards come, joined they are the undivided run."""
    shards = split(WHOLE[:count], of)
    order.shuffle(shards)
    whole, together = run_of(*WHOLE[:count]), joined(shards)
    assert together.cases == whole.cases
    assert together.policy.false_alarm == pytest.approx(whole.policy.false_alarm)
    assert together.shard is None


def test_a_missing_shard_is_named_and_nothing_is_judged() -> None:
    """A verdict over a part of the cases would look like one over all of them."""
    shards = split(WHOLE, 4)
    with pytest.raises(IncompleteError) as raised:
        joined([shards[1], shards[3]])
    assert str(raised.value) == ("Missing shards: 1, 3 (of 4). Find out why they gave no result, measure them again, then merge.")
    assert raised.value.exit_code == Exit.NOT_MEASURED


NO_SHARD = f"The run of {STARTED:%Y-%m-%d %H:%M:%S} is not a shard of a check. Measure with `ratchet check --shard I/N`."
APART = "Shards 1/2 and 2/2 do not belong together: {}. Merge shards of one check."
OTHER_DRIVER = run_of().environment.model_copy(
    update={"fingerprint": run_of().environment.fingerprint.model_copy(update={"driver": "1.0"})}
)


def with_second(**changes: Any) -> list[RunRecord]:
    """Both shards of a check, the second of which is another one in this."""
    first, second = split(WHOLE, 2)
    return [first, second.model_copy(update=changes)]


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ([run_of(*WHOLE)], NO_SHARD),
        ([split(WHOLE, 1, kind="run")[0]], NO_SHARD),
        ([split(WHOLE, 2)[0], split(WHOLE, 2)[0]], "Shard 1/2 was given twice. Name each shard once."),
        ([split(WHOLE, 3)[0], split(WHOLE, 2)[1]], "The runs are shards of 2 and of 3. Merge shards of one check."),
        (with_second(head=run_of().reference), APART.format("head is 3f2a1bc98d in one and 9e8d7c6b5a in the other")),
        (with_second(reference=run_of().head), APART.format("they compare with different references")),
        (with_second(bench_from="head"), APART.format("one of them has the head's benchmarks on both sides")),
        (with_second(plan=run_of().plan.model_copy(update={"seed": 77})), APART.format("they were measured by different plans")),
        (with_second(policy=run_of().policy.model_copy(update={"regression": 0.5})), APART.format("their thresholds differ")),
        (with_second(environment=OTHER_DRIVER), APART.format("driver: 1.0 here, 580.95.05 there")),
    ],
)
def test_what_does_not_belong_together_is_refused(runs: list[RunRecord], sentence: str) -> None:
    """Runs of other code, plans, thresholds or machines are not joined, and the sentence says what differs."""
    with pytest.raises(UsageError) as raised:
        joined(runs)
    assert str(raised.value) == sentence


def test_one_run_comes_of_all_shards() -> None:
    """It took as long as the longest from the first on, and keeps every card, warning and further measurement, each once."""
    started = run_of().started_at
    environment = run_of().environment
    shards = [
        run.model_copy(
            update={
                "started_at": started - timedelta(minutes=run.shard.number if run.shard else 0),
                "wall_s": wall_s,
                "environment": environment.model_copy(update={"cards": cards}),
                "warnings": ("Hot.", f"In {run.shard}."),
                "reference_missing": missing,
                "best": run.cases[:1],
                "anchors": run.cases[1:2],
                "plan": run.plan.model_copy(update={"order_seed": wall_s}),
            }
        )
        for run, wall_s, cards, missing in zip(
            split(WHOLE, 3),
            (20, 30, 10),
            (("GPU-a",), ("GPU-b", "GPU-a"), ("GPU-c",)),
            (None, "It did not build.", "It did not import."),
            strict=True,
        )
    ]
    together = joined(shards[::-1])
    assert (together.started_at, together.wall_s) == (started - timedelta(minutes=3), 30)
    assert together.environment == environment.model_copy(update={"cards": ("GPU-a", "GPU-b", "GPU-c")})
    assert together.warnings == ("Hot.", "In 1/3.", "In 2/3.", "In 3/3.")
    assert together.reference_missing in ("It did not build.", "It did not import.")
    assert (together.best, together.anchors) == (WHOLE[:3], WHOLE[3:6])


def test_a_shard_without_a_reference_joins_those_that_have_one() -> None:
    """Where the reference is missing in one shard, whichever it is, the whole has that of the others, which have to agree."""
    first, second, third = split(WHOLE, 3)
    without = [run.model_copy(update={"reference": None}) for run in (first, third)]
    for shards in ([first, second, without[1]], [without[0], second, third]):
        together = joined(shards)
        assert (together.cases, together.reference) == (WHOLE, second.reference)
    other = third.model_copy(update={"reference": Tree(commit="f" * 40)})
    with pytest.raises(UsageError, match="they compare with different references"):
        joined([without[0], second, other])


def test_a_case_that_every_shard_has_comes_once() -> None:
    """A head that does not build fails in every shard, and is one failure of the whole."""
    broken = timed(1.0, "build/*")
    shards = [run.model_copy(update={"cases": (broken,)}) for run in split(WHOLE, 3)]
    assert joined(shards).cases == (broken,)


def test_no_shard_beyond_the_last() -> None:
    """There is no shard 5 of 4, nor one numbered 0."""
    for number in (0, 5):
        with pytest.raises(ValidationError):
            Shard(number=number, of=4)
