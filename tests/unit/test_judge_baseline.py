"""Verdict + baseline → next baseline."""

from __future__ import annotations

import examples
import pytest

from ratchet.errors import UsageError
from ratchet.judge.baseline import record
from ratchet.judge.verdict import judge_run
from ratchet.records import Baseline, CaseRun, Failure, Fingerprint, FingerprintBaseline, RunRecord, Tree

NAME = "attention/training_512"
SAME = (1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999)
FASTER = tuple(0.8 * ratio for ratio in SAME)
KEY = examples.FINGERPRINT.key
OTHER = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)
BASE = examples.baseline()
TWO_MACHINES = BASE.model_copy(
    update={
        "fingerprints": {
            **BASE.fingerprints,
            OTHER.key: FingerprintBaseline(fingerprint=OTHER, configs=BASE.fingerprints[KEY].configs),
        }
    }
)


def recorded(run: RunRecord, baseline: Baseline) -> tuple[Baseline, list[str]]:
    return record(baseline, run, judge_run(run, baseline))


def test_a_new_case_enters() -> None:
    """The first measurement on a machine becomes its baseline, with figures made from the samples themselves."""
    made, moved = recorded(examples.run_of(examples.compared(*SAME)), Baseline())
    assert moved == [NAME]
    entry = made.entries(examples.FINGERPRINT)[NAME]
    assert entry.git_commit == examples.HEAD.commit
    assert entry.timestamp == examples.STARTED
    assert entry.median_ms == pytest.approx(1.0, abs=1e-3)
    assert entry.pair_medians_ms == pytest.approx(SAME)
    assert entry.throughput_gflops == pytest.approx(examples.WORKLOAD.flops / entry.median_ms * 1e-6)
    assert made.fingerprints[KEY].fingerprint == examples.FINGERPRINT


@pytest.mark.parametrize("changes", [{"kind": "run", "reference": None}, {"reference": examples.REFERENCE}])
def test_an_unchanged_case_stays(changes: dict[str, object]) -> None:
    """A case that was not proved faster leaves the baseline the very object it was."""
    made, moved = recorded(examples.run_of(examples.compared(*SAME), **changes), BASE)
    assert moved == []
    assert made is BASE


def test_an_improvement_over_the_baseline_commit_moves() -> None:
    """Proved faster than the very commit that the baseline names, the head takes its place."""
    made, moved = recorded(examples.run_of(examples.compared(*FASTER), reference=examples.REFERENCE), TWO_MACHINES)
    assert moved == [NAME]
    assert made.entries(examples.FINGERPRINT)[NAME].git_commit == examples.HEAD.commit
    assert made.fingerprints[OTHER.key] == TWO_MACHINES.fingerprints[OTHER.key]


@pytest.mark.parametrize("reference", [Tree(commit="a" * 40), None])
def test_an_improvement_over_another_commit_stays(reference: Tree | None) -> None:
    """Faster than some other commit proves nothing about the baseline's."""
    made, moved = recorded(examples.run_of(examples.compared(*FASTER), reference=reference), BASE)
    assert (made, moved) == (BASE, [])


def test_other_work_enters() -> None:
    """A case whose workload changed starts again."""
    other = examples.WORKLOAD.model_copy(update={"flops": 1e9})
    run = examples.run_of(examples.compared(*SAME, workload=other, reference_workload=other))
    made, moved = recorded(run, BASE)
    assert moved == [NAME]
    assert made.entries(examples.FINGERPRINT)[NAME].workload == other


def crashed() -> Failure:
    return Failure(side="head", stage="check", message="wrong result")


@pytest.mark.parametrize(
    "case",
    [
        examples.compared(*SAME, failures=(crashed(),)),
        examples.compared(*SAME, unfit="Hot."),
        examples.compared(*(1.2 * ratio for ratio in SAME)),
        examples.compared(skipped="needs x", workload=None, performance=None),
        examples.compared(),
        examples.compared(head=(examples.blocks(0, 1.0, throttled=[0]),)),
    ],
    ids=["failed", "unfit", "regressed", "skipped", "nothing measured", "all throttled"],
)
def test_what_never_enters(case: CaseRun) -> None:
    """What failed, was unfit, regressed or has no samples is no baseline, also where the machine has none."""
    assert recorded(examples.run_of(case), Baseline()) == (Baseline(), [])


def test_a_dirty_tree_is_refused() -> None:
    """Uncommitted changes cannot be named by a baseline."""
    run = examples.run_of(examples.compared(*SAME), head=examples.HEAD.model_copy(update={"dirty": True}))
    with pytest.raises(UsageError, match="uncommitted changes") as caught:
        recorded(run, Baseline())
    assert caught.value.hint


def test_a_run_outside_git_is_refused() -> None:
    """A run without a commit cannot be named by a baseline."""
    with pytest.raises(UsageError, match="outside git"):
        recorded(examples.run_of(examples.compared(*SAME), head=Tree(commit="")), Baseline())


def test_order_of_the_file() -> None:
    """Cases stand in the file by name, so that a new one does not move the others."""
    cases = tuple(examples.compared(*SAME, name=name) for name in ("softmax/b", "copy/a"))
    made, moved = recorded(examples.run_of(*cases), BASE)
    assert moved == ["softmax/b", "copy/a"]
    assert list(made.entries(examples.FINGERPRINT)) == [NAME, "copy/a", "softmax/b"]
