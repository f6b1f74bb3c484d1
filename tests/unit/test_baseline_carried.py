"""What the baseline keeps when a machine gets other software, and what it does not let in."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.common.baseline_update import CARRIED, record
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, StepKind
from tests import examples, history_examples

OLD = examples.FINGERPRINT.model_copy(update={"driver": "575.10", "torch": "2.8.0+cu129"})
OTHER_GPU = OLD.model_copy(update={"gpu": "NVIDIA L4", "gpu_memory_bytes": 24 * 2**30})
NAME = "attention/training_512"


def known(fingerprint=OLD, commit: int = 7) -> Baseline:
    """A baseline of one machine, whose best commit has this number."""
    entry = examples.first_entry(NAME, fingerprint, git_commit=history_examples.commit(commit))
    return examples.stored({NAME: entry}, fingerprint)


def entered(baseline: Baseline, run):
    """The entry of the case on today's machine after this run; None where there is none."""
    after = record(baseline, [(run, judge_run(run, baseline))]).baseline
    return after.entries(run.environment.fingerprint).get(NAME)


@pytest.mark.parametrize(
    ("run", "enters"),
    [({"reference": 7}, 7), ({"reference": 7, "bench_from": "head"}, 9), ({"reference": 8}, 9)],
    ids=["against the best commit", "with the head's benchmarks, so without figures of its own", "against some other commit"],
)
def test_the_best_commit_outlives_an_update(run: dict[str, Any], enters: int):
    """Measured under today's software, the best commit under older software enters and says why; else the run's head does."""
    entry = entered(known(), history_examples.check_of(history_examples.timed(1.01), day=1, head=9, **run))
    assert entry.git_commit == history_examples.commit(enters)
    assert [(step.kind, step.reason) for step in entry.steps] == [(StepKind.FIRST, CARRIED if enters == 7 else None)]


def test_other_hardware_carries_nothing():
    """The best commit of another GPU is not carried over; an older entry of the same one does not hide an own entry."""
    assert known(OTHER_GPU).carried(examples.FINGERPRINT) == {}
    assert list(known().carried(examples.FINGERPRINT)) == [NAME]
    assert known().carried(OLD) == {}


def test_an_uncertain_first_figure_waits():
    """A new case whose own times scatter past the gate does not enter; a steady one does."""
    ratios = [1.0, 1.6, 0.7, 1.4, 0.8, 1.5, 0.6, 1.3]
    restless = examples.compared(*ratios, reference=(), reference_workload=None, in_reference=False)
    assert entered(Baseline(), history_examples.check_of(restless, day=1, head=9)) is None
    assert entered(Baseline(), history_examples.check_of(history_examples.new(), day=1, head=9)) is not None


def test_a_slowdown_without_proof_does_not_enter():
    """A head that looks slower, with too few pairs to prove it, is no first entry."""
    few = examples.compared(*(1.2 * ratio for ratio in history_examples.STEADY[:8]))
    run = history_examples.check_of(few, day=1, head=9)
    assert judge_run(run, Baseline()).cases[0].outcome == "SLOWER"
    assert entered(Baseline(), run) is None
