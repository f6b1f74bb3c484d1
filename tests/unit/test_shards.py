"""Shards of one check, and the run that they are together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet.core.errors import Exit, IncompleteError, UsageError
from ratchet.core.judge.shards import joined, policy_of_part
from ratchet.core.records.run import CaseRun, RunRecord, Shard
from tests.examples import run_of
from tests.history_examples import timed

WHOLE = tuple(timed(1.0 + number / 1000, f"attention/case_{number}") for number in range(7))


def split(cases: Sequence[CaseRun], of: int, **changes: Any) -> list[RunRecord]:
    """The shards of a check of these cases, as `ratchet check --shard` records them."""
    whole = run_of(*cases)
    policy = policy_of_part(whole.policy, of)
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
    with pytest.raises(IncompleteError, match=r"^Missing shards: 2, 4 \(of 4\)\.") as raised:
        joined([shards[0], shards[2]])
    assert raised.value.exit_code == Exit.NOT_MEASURED


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ([run_of(*WHOLE)], "not a shard of a check"),
        ([split(WHOLE, 2)[0], split(WHOLE, 2)[0]], "given twice"),
        ([split(WHOLE, 2)[0], split(WHOLE, 3)[1]], "shards of 2 and of 3"),
        ([split(WHOLE, 2)[0], split(WHOLE, 2, head=run_of().reference)[1]], "head is"),
        ([split(WHOLE, 2)[0], split(WHOLE, 2, reference=run_of().head)[1]], "different references"),
        ([split(WHOLE, 2)[0], split(WHOLE, 2, bench_from="head")[1]], "head's benchmarks on both sides"),
        ([split(WHOLE, 2)[0], split(WHOLE, 2, plan=run_of().plan.model_copy(update={"seed": 77}))[1]], "different plans"),
        (
            [
                split(WHOLE, 2)[0],
                split(WHOLE, 2)[1].model_copy(update={"policy": run_of().policy.model_copy(update={"regression": 0.5})}),
            ],
            "thresholds differ",
        ),
        (
            [
                split(WHOLE, 2)[0],
                split(
                    WHOLE,
                    2,
                    environment=run_of().environment.model_copy(
                        update={"fingerprint": run_of().environment.fingerprint.model_copy(update={"driver": "1.0"})}
                    ),
                )[1],
            ],
            "driver: 1.0 here",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(runs: list[RunRecord], sentence: str) -> None:
    """Runs of other code, plans, thresholds or machines are not joined, and the sentence says what differs."""
    with pytest.raises(UsageError, match=sentence):
        joined(runs)


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
