"""Repositories with more in them than one project: a monorepo's settings, and submodules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, Playground, git, new_repository

KERNELS = """\
import time


def chain(x):
    time.sleep(2e-3)
    return x + 41
"""
USES = ADDS.split("    def run():")[0].replace("import torch\n", "import torch\nfrom chained import chain\n") + (
    "    return Workload(run=lambda: chain(x), reference=lambda: x.double() + 41, tolerance={'float32': 1e-3})\n"
)
TABLE = "[tool.ratchet]\nblock_ms = 10\ntime_identical = true\n"


def test_the_settings_of_a_project_count_below_it(make: Callable[..., Playground]) -> None:
    """Its benchmarks run, its build runs in its folder of both trees, and its results lie beside its pyproject.toml."""
    build = """build = ["bash", "-c", "pwd >> $LOG && cp made.txt built.txt"]\n"""
    files = {"libs/a/pyproject.toml": TABLE + build, "libs/a/bench/adds.py": ADDS, "libs/a/src/deep/x.txt": "x\n"}
    play = make({**files, "libs/a/made.txt": "made\n", "bench/root.py": ADDS}, {"notes.txt": "x\n"})
    log = play.folder / "log.txt"
    done = play.check("--repo", "libs/a/src/deep", env={"LOG": str(log)})
    assert done.code == 0, done
    assert [line.split("/")[-3:] for line in sorted(log.read_text().split())] == [["base", "libs", "a"], ["head", "libs", "a"]]
    assert (play.repo / "libs/a/results/report.json").exists()
    assert not (play.repo / "results").exists()
    assert "adds/small" in play.ratchet("list", "--device", "cpu", cwd=play.repo / "libs" / "a").out


def with_submodule(play: Playground) -> None:
    """Adds a repository with a package, which the benchmark imports, as a submodule."""
    other = play.folder / "other"
    new_repository(other, {"chained/__init__.py": KERNELS})
    play.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "third/other")
    play.commit({"bench/adds.py": USES, "pyproject.toml": TABLE + 'python_path = ["third/other"]\n'}, "a submodule")


@pytest.mark.slow
def test_submodules_are_measured_at_their_commit(play: Playground) -> None:
    """Each side has the submodule as its commit has it: a slower one is found, and nothing of it is left behind."""
    with_submodule(play)
    inner = play.repo / "third" / "other"
    git(inner, "config", "user.name", "A Test")
    git(inner, "config", "user.email", "test@localhost")
    (inner / "chained/__init__.py").write_text(KERNELS.replace("2e-3", "2e-2"))
    git(inner, "commit", "--quiet", "--all", "-m", "slower")
    play.commit({"notes.txt": "x\n"}, "a slower submodule")
    done = play.check("--pairs", "20")
    assert done.outcomes() == {"adds/small": Outcome.REGRESSED}, done
    assert git(inner, "status", "--porcelain") == ""
    play.assert_clean()


def test_a_submodule_that_did_not_change_is_identical(play: Playground) -> None:
    """What git keeps beside its files is no difference between the sides."""
    with_submodule(play)
    play.commit({"pyproject.toml": '[tool.ratchet]\npython_path = ["third/other"]\n'}, "identical is not timed")
    play.commit({}, "nothing")
    assert play.check().outcomes() == {"adds/small": Outcome.IDENTICAL}


def test_a_commit_of_a_submodule_that_is_not_here(play: Playground) -> None:
    """It is named, with the command that brings it."""
    with_submodule(play)
    play.git("update-index", "--cacheinfo", f"160000,{'1' * 40},third/other")
    play.git("commit", "--quiet", "-m", "a submodule's commit that nobody pushed")
    play.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    git(play.repo / "third/other", "checkout", "--quiet", "HEAD")
    done = play.check("--base", "HEAD~1", "--repo", str(play.repo))
    assert done.code == 3, done
    assert "third/other" in done.sentence
    assert "git submodule update --init --recursive" in done.sentence
    play.assert_clean()
