"""One check over several shards, and over several machines."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, PROOF, SLOW_ADDS, Playground

NAMES = ("adds", "extra", "more")
FILES = {f"bench/{name}.py": ADDS.replace("def adds", f"def {name}") for name in NAMES}
SLOWER = {"bench/extra.py": SLOW_ADDS.replace("def adds", "def extra")}
EXPECTED = {"adds/small": Outcome.UNCHANGED, "extra/small": Outcome.REGRESSED, "more/small": Outcome.UNCHANGED}


def shard(play: Playground, number: int, of: int, *words: str) -> Path:
    """Measure one shard as a runner of its own would; its run."""
    play.check("--shard", f"{number}/{of}", *words)
    kept = play.folder / f"shard-{number}"
    shutil.copytree(play.repo / "results", kept)
    shutil.rmtree(play.repo / "results")
    return kept / "current.json"


@pytest.mark.slow
def test_shards_merge_into_one_verdict(make: Callable[..., Playground]) -> None:
    """Two runners measure a part of the cases each; merged, they are one report over all of them, with one exit code.

    Where one of them gave no run, `merge` says which and exits 3, whatever the other found.
    """
    play = make(FILES, SLOWER)
    runs = [shard(play, number, 2, *PROOF) for number in (1, 2)]
    for lost, left in ((1, runs[1]), (2, runs[0])):
        alone = play.ratchet("merge", str(left))
        assert alone.code == 3
        assert alone.sentence.startswith(f"Missing shards: {lost} (of 2).")
    done = play.ratchet("merge", *map(str, runs))
    assert done.code == 1, done
    assert done.outcomes() == EXPECTED
    assert done.run.shard is None
    assert list(EXPECTED) == [case.name for case in done.run.cases]
    assert done.report.policy.false_alarm == pytest.approx(0.001)


def test_a_shard_without_a_case_says_so(play: Playground) -> None:
    """More shards than cases is a mistake in the workflow, not a green check."""
    done = play.check("--shard", "2/2")
    assert done.code == 2
    assert done.sentence == "Shard 2/2 has no case: there are fewer cases than shards. Take fewer shards."


@pytest.mark.parametrize(
    ("words", "sentence"), [(["--shard", "3/2"], "3/2"), (["--shard", "one"], "one"), (["--gpus", "0,0"], "0,0")]
)
def test_nonsense_is_refused(play: Playground, words: list[str], sentence: str) -> None:
    """A shard or a list of GPUs that cannot be is refused before anything is measured."""
    done = play.check(*words)
    assert done.code == 2
    assert sentence in done.err


def test_gpus_where_there_is_none(play: Playground) -> None:
    """Asked for all GPUs of a machine that has none, a check says so instead of measuring the CPU."""
    done = play.check("--gpus", "all")
    assert done.code == 3
    assert done.sentence.startswith("--gpus was given, but no NVIDIA GPU")


@pytest.mark.slow
def test_two_machines_share_the_cases(make: Callable[..., Playground]) -> None:
    """Two machines measure every case once, on one of them, in one run. Here both are the CPU."""
    play = make(FILES, SLOWER)
    script = """
import os, sys
from pathlib import Path
from ratchet.core.config import load_settings
from ratchet.core.git import Repository
from ratchet.core.git import worktrees
from ratchet.core.machine import Machine
from ratchet.core.check import CheckPlan, Comparer
from ratchet.core.records.baseline import Baseline
from ratchet.core.report.progress import Progress
repository = Repository(Path("."))
settings = load_settings(repository.root, os.environ, {"device": "cpu", "pairs": 8, "blocks": 2, "regression_threshold": 0.6})
reference, head = repository.commit_snapshot("HEAD~1"), repository.commit_snapshot("HEAD")
cpu = Machine("cpu", None, (), ())
with worktrees(repository, head, reference) as trees:
    plan = CheckPlan(repository, settings, Path("results"), Baseline(), head, reference, None, (), None, os.environ)
    suite = Comparer(plan, (cpu, cpu), trees, Progress()).compare(reference, trees.reference, ())
print(*sorted(f"{case.name}:{len(case.head) >= 6}:{len(case.reference) >= 6}" for case in suite.cases))
"""
    (play.folder / "two.py").write_text(script, encoding="utf-8")
    done = play.finish(play.start_warm("-X", "warm", str(play.folder / "two.py")))
    assert done.out.split() == ["adds/small:True:True", "extra/small:True:True", "more/small:True:True"], done
