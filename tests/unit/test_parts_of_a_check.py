"""Some cases of a check are measured apart from the others: against their best commits, or against those of the baseline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ratchet.core import check
from ratchet.core.bench.suite import CaseTask, Suite
from ratchet.core.check import CheckSuite, Comparer
from ratchet.core.errors import ForeignModuleError, GitError, HostError, UsageError
from ratchet.core.judge.drift import Drift
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CaseRun, Policy, Shard
from ratchet.core.records.verdict import Outcome
from ratchet.core.report.progress import Progress
from ratchet.shards.judge import joined
from tests import examples, history_examples

QUIET = history_examples.STEADY * 13
BEST = "b" * 40
SAME = examples.compared().model_copy(update={"host_same": True})


def named(name: str, ratio: float, pairs: int) -> CaseRun:
    return examples.compared(*(ratio * noise for noise in QUIET[:pairs])).model_copy(update={"name": name})


@pytest.fixture
def comparer(monkeypatch: pytest.MonkeyPatch) -> Comparer:
    """A comparer that measures each case until its rule has no question left: 4.5 % slower, or the same and not timed."""

    def measure(_settings: object, _specs: object, task: CaseTask, *_: object) -> Suite:
        assert task.shard
        for pairs in task.rule.looks:
            names = task.shard.part(task.patterns)
            cases = [SAME.model_copy(update={"name": name}) if "same" in name else named(name, 1.045, pairs) for name in names]
            if not task.rule.undecided(cases):
                break
        return Suite(tuple(cases), torch="", cuda=None, triton=None)

    @contextlib.contextmanager
    def worktree(*_: object) -> Iterator[Path]:
        yield Path()

    def snapshot(commit: str) -> SimpleNamespace:
        return SimpleNamespace(tree=examples.REFERENCE.model_copy(update={"commit": commit}))

    machine = SimpleNamespace(device="cpu", gpu=None, idle=(), pythons=SimpleNamespace(variables=lambda *_: {}))
    settings = SimpleNamespace(policy=Policy(), pairs=100, confidence=0.95, time_identical=False)
    plan = SimpleNamespace(settings=settings, gating=Baseline(), repository=SimpleNamespace(root=Path()), environ={}, patterns=())
    plan.snapshot, plan.shard, plan.head = snapshot, None, SimpleNamespace(tree=SimpleNamespace(dirty=True))
    replaced: Mapping[str, Any] = {
        "environment_of": lambda _: examples.ENVIRONMENT,
        "build": lambda *_: None,
        "plan_of": lambda *_, **__: examples.PLAN,
        "tree_specs": lambda *_: {"head": None},
        "cases_of": lambda *_: [named(f"a/{number}", 1.0, 1) for number in range(11)],
        "differing_settings": lambda *_: (),
        "measure": measure,
        "worktree": worktree,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(check, name, value)
    return Comparer(cast(Any, plan), cast(Any, (machine,)), cast(Any, SimpleNamespace(head=Path())), Progress())


def test_a_case_held_to_its_best_commit_gets_the_pairs_that_a_proof_takes_beside_the_others(comparer: Comparer) -> None:
    """Eleven cases take seven sessions; with the five of a run of this case alone, its slowdown would pass."""
    cases = [named("a/slower", 1.012, 40), *(named(f"a/{number}", 1.0, 6) for number in range(10))]
    best, notes = comparer._against_best(cases, {"a/slower": Drift(BEST, 1.03)})
    assert not notes
    report = judge_run(examples.run_of(*cases, best=tuple(best)), Baseline())
    assert [(case.name, case.outcome) for case in report.cases if case.best] == [("a/slower", Outcome.REGRESSED)]
    assert report.exit_code == 1


@pytest.mark.parametrize("error", [ForeignModuleError("Why."), GitError("Why."), HostError("Why."), UsageError("Why.")])
def test_a_best_commit_that_cannot_be_measured_costs_nothing_that_was(comparer: Comparer, error: Exception) -> None:
    """What was measured is judged, and a sentence names the cases that were not held to their best commit."""
    comparer.compare = Mock(side_effect=error)  # type: ignore[method-assign]
    found = comparer._against_best([named("a/slower", 1.012, 40)], {"a/slower": Drift(BEST, 1.03)})
    assert found == ([], ["Not compared with the best commit bbbbbbbbbb: a/slower. Why."])


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_red_in_its_part_is_red_in_the_whole_run(comparer: Comparer, count: int) -> None:
    """Of two shards, and of two GPUs, one times 18 cases and the other 2: together they have the evidence that 20 cases take."""
    timed = [[f"a/{few}_{number}" if number < few else f"same/{few}_{number}" for number in range(20)] for few in (18, 2)]
    names = [name for both in zip(*timed, strict=True) for name in both]
    comparer.policy = Policy(false_alarm=0.001 / count)
    comparer._machines *= 3 - count
    runs = []
    for number in range(1, count + 1):
        comparer._plan.shard = shard = Shard(number=number, of=count) if count > 1 else None  # type: ignore[misc]
        suite = comparer.compare(comparer._plan.snapshot(BEST), Path(), names, shard=shard)
        runs.append(examples.run_of(*suite.cases, policy=comparer.policy, shard=shard))
    report = judge_run(joined(runs) if count > 1 else runs[0], Baseline())
    assert report.counts == {Outcome.REGRESSED: 20, Outcome.IDENTICAL: 20}


def test_cases_of_several_baseline_commits_get_the_pairs_that_a_proof_takes_together(comparer: Comparer) -> None:
    """Each of eleven cases has a commit of its own, and all are judged as one run."""
    stored = {
        f"a/{number}": examples.first_entry(f"a/{number}").model_copy(update={"git_commit": f"{number:040x}"})
        for number in range(11)
    }
    measured: CheckSuite = comparer._against_baseline(stored)
    report = judge_run(examples.run_of(*measured.suite.cases), Baseline())
    assert report.counts == {Outcome.REGRESSED: 11}


def test_a_baseline_commit_that_is_gone_is_said_before_anything_is_measured(comparer: Comparer) -> None:
    """The times of the other commits would be lost."""
    commits = {"a/0": BEST, "a/1": BEST, "a/2": "c" * 40}
    stored = {name: examples.first_entry(name).model_copy(update={"git_commit": commit}) for name, commit in commits.items()}
    comparer._plan.snapshot = Mock(side_effect=lambda commit: gone(commit) if commit != BEST else None)  # type: ignore[misc]
    comparer.compare = Mock()  # type: ignore[method-assign]
    with pytest.raises(GitError):
        comparer._against_baseline(stored)
    assert not comparer.compare.called


def test_a_case_of_two_groups_comes_once(comparer: Comparer) -> None:
    """The stand-in for a broken file is among the cases of the first commit, and matches those of others, too."""
    commits = {"a/0": BEST, "a/1": BEST, "a/2": "c" * 40}
    stored = {name: examples.first_entry(name).model_copy(update={"git_commit": commit}) for name, commit in commits.items()}

    def compare(_reference: object, _tree: object, group: list[str], **_: object) -> Suite:
        return Suite(tuple(named(name, 1.0, 6) for name in {*group, "a/2"}), torch="", cuda=None, triton=None)

    comparer.compare = compare  # type: ignore[assignment, method-assign]
    cases = comparer._against_baseline(stored).suite.cases
    assert sorted(case.name for case in cases) == sorted(f"a/{number}" for number in range(11))
    assert [case.name for case in cases if case.reference_tree and case.reference_tree.commit != BEST] == ["a/2"]


def gone(commit: str) -> None:
    raise GitError(f"There is no commit {commit}.")


def test_all_shards_of_a_check_against_the_baseline_have_one_reference(comparer: Comparer) -> None:
    """It is the commit of most cases of all shards; a case of another says so, and a shard may have new cases alone."""
    commits = dict.fromkeys((0, 2, 4, 6), BEST) | dict.fromkeys((1, 3, 5), "c" * 40)
    stored = {
        f"a/{number}": examples.first_entry(f"a/{number}").model_copy(update={"git_commit": commit})
        for number, commit in commits.items()
    }
    for number, of, other in ((1, 2, None), (2, 2, "c" * 40), (10, 11, None)):
        comparer._plan.shard = Shard(number=number, of=of)  # type: ignore[misc]
        measured = comparer._against_baseline(stored)
        first = measured.suite.cases[0]
        assert measured.reference
        assert measured.reference.commit == BEST
        assert (first.reference_tree and first.reference_tree.commit) == other
