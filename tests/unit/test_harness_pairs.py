"""Pairs of processes of somebody's command: what a lost process, a missing benchmark and an installed package do to a case."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ratchet.core.bench.suite import CaseTask, Suite
from ratchet.core.bench.tree_spec import ProcessShare, TreeSpec
from ratchet.core.errors import HostError, UsageError
from ratchet.core.judge.rule import Rule
from ratchet.core.records.run import SIDES, Plan, Side
from ratchet.core.report.progress import Progress
from ratchet.harness.pairs import Harness, list_harness, measure_harness

ENVIRON = {"PATH": "/usr/bin:/bin"}
BENCH = """\
import json, os, pathlib, sys
import package
counter = pathlib.Path(__file__).with_name("count")
count = int(counter.read_text()) if counter.exists() else 0
counter.write_text(str(count + 1))
ACTION
pathlib.Path(sys.argv[1]).write_text(json.dumps({"unit": "ms", "benchmarks": {"a": [package.MS], "b": [1.0]} | extra}))
"""


def task_of(pairs: int = 3, patterns: tuple[str, ...] = ()) -> CaseTask:
    return CaseTask(Plan(pairs=pairs, blocks=1, block_ms=1, seed=0, clock="cpu", cache="warm"), patterns, 0.95, Rule((pairs,)))


class Trees:
    """Two trees whose command is a script that counts its own runs; ``action`` may do something at one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.specs: dict[Side, TreeSpec] = {}

    def add(self, side: Side, action: str = "", ms: float = 1.0) -> Path:
        tree = self.folder / side
        (tree / "src").mkdir(parents=True)
        (tree / "bench.py").write_text(BENCH.replace("ACTION", f"extra = {{}}\n{action}"))
        (tree / "src" / "package.py").write_text(f"MS = {ms}\n")
        self.specs[side] = TreeSpec(tree, self.folder / "checkout", "bench", (".", "src"), "cpu", ProcessShare(1, None, 1.0, 1.0))
        return tree

    def measure(self, pairs: int = 3, time_limit_s: float = 60.0, patterns: tuple[str, ...] = ()) -> Suite:
        command = Harness((sys.executable, "-S", "bench.py", "{out}"), "json", time_limit_s)
        return measure_harness(self.specs, command, task_of(pairs, patterns), Progress(), ENVIRON)


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path)


def test_each_tree_imports_its_own_package(trees: Trees) -> None:
    """Folders of the tree come first, so that no installed copy is timed twice; each pair is a process of each side."""
    trees.add("reference", ms=1.0)
    trees.add("head", ms=2.0)
    suite = trees.measure()
    case = next(case for case in suite.cases if case.name == "a/default")
    assert [worker.blocks[0].samples_ms for worker in case.head] == [(2.0,)] * 3
    assert [worker.blocks[0].samples_ms for worker in case.reference] == [(1.0,)] * 3
    assert [one.started_first for one in case.head] == [not one.started_first for one in case.reference]
    assert all((trees.folder / side / "count").read_text() == "3" for side in SIDES)
    assert case.performance
    assert (case.performance.median_time_ms, case.has_reference, case.unfit) == (2.0, False, None)


def test_a_process_that_is_lost_is_replaced_by_a_whole_pair(trees: Trees) -> None:
    """It is no verdict on the code, and the record has it."""
    trees.add("reference")
    trees.add("head", "if count == 1: os.kill(os.getpid(), 9)")
    case, _ = trees.measure().cases
    assert [(one.side, one.pair, one.how) for one in case.lost] == [("head", 1, "was killed (signal 9)")]
    assert (len(case.head), len(case.reference), case.failures, case.unfit) == (3, 3, (), None)


def test_a_reference_that_always_fails_leaves_the_head_alone(trees: Trees) -> None:
    """The head is timed, and the report says why there is no comparison."""
    trees.add("reference", "sys.exit('no such kernel')")
    trees.add("head")
    suite = trees.measure()
    assert suite.reference_missing
    assert suite.reference_missing.endswith("ended with status 1.")
    case, _ = suite.cases
    assert (len(case.head), case.reference, case.in_reference) == (3, (), True)


def test_a_head_that_fails_later_is_a_failure_with_its_last_words(trees: Trees) -> None:
    """From the second pair on, in each of three tries: the reference works."""
    trees.add("reference")
    trees.add("head", "if count: sys.exit('the result is wrong')")
    case, _ = trees.measure().cases
    [failure] = case.failures
    assert failure.message.endswith("ended with status 1, in each of 3 tries")
    assert failure.last_lines == ("the result is wrong",)


def test_troubles_of_both_sides_in_turn_are_no_verdict(trees: Trees) -> None:
    """Who is at fault is unknown."""
    trees.add("reference", "if count in (2, 3): sys.exit(1)")
    trees.add("head", "if count == 1: sys.exit(1)")
    case, _ = trees.measure().cases
    assert case.failures == ()
    assert case.unfit
    assert case.unfit.startswith("The head's worker ended with status 1 and the reference's worker ended with status 1 twice.")


def test_a_benchmark_that_comes_and_goes_cannot_be_judged(trees: Trees) -> None:
    """The command has to report the same in every process; the others are judged."""
    trees.add("reference")
    trees.add("head", "if count != 1: extra = {'c': [1.0]}")
    cases = {case.name: case for case in trees.measure().cases}
    assert cases["c/default"].unfit
    assert cases["c/default"].unfit.startswith("The command did not time it in pair 2")
    assert cases["b/default"].unfit is None


def test_a_benchmark_that_the_first_process_lost_is_not_gone(trees: Trees) -> None:
    """Later processes report it, so it is neither missing, which would pass, nor dropped if only one side has it."""
    trees.add("reference", "extra = {'c': [1.0]}")
    trees.add("head", "if count: extra = {'c': [1.0], 'd': [1.0]}")
    cases = {case.name: case for case in trees.measure().cases}
    for name in ("c/default", "d/default"):
        assert cases[name].in_head
        assert cases[name].unfit == "The command did not time it in pair 1. It must report the same benchmarks in every process."


COLLECTING = """\
sys.exit('''\
__________________ ERROR collecting tests/test_a.py __________________
tests/test_a.py:1: in <module>
E   ModuleNotFoundError: No module named 'left_pad'
__________________ ERROR collecting tests/test_b.py __________________
E     File "tests/test_b.py", line 1
E   SyntaxError: invalid syntax
============== short test summary info ==============
ERROR tests/test_a.py
!!!!!!!!!!!!!!!! Interrupted: 2 errors during collection !!!!!!!!!!!!!!!!
''')
"""
CONFTEST = """\
place = pathlib.Path.cwd() / "tests" / "conftest.py"
sys.exit(f"ImportError while loading conftest '{place}'.\\nE   ModuleNotFoundError: No module named 'x'")
"""


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (COLLECTING, "could not import tests/test_a.py and 1 other file: ModuleNotFoundError: No module named 'left_pad'."),
        (CONFTEST, "could not import tests/conftest.py: ModuleNotFoundError: No module named 'x'."),
    ],
)
def test_tests_that_pytest_cannot_import_are_named_with_the_reason(trees: Trees, action: str, said: str) -> None:
    """The first file and its error are said, not the last lines of pytest's report."""
    trees.add("head", action)
    with pytest.raises(HostError, match="could not import") as caught:
        trees.measure()
    assert caught.value.message.endswith(said)


def test_a_process_that_takes_too_long_is_ended(trees: Trees) -> None:
    """With no other side there is nothing to measure at all."""
    trees.add("head", "import time; time.sleep(600)")
    with pytest.raises(HostError, match=r"gave no answer within 300"):
        trees.measure(time_limit_s=0.3)


def test_a_path_into_the_checkout_is_refused_unless_it_is_an_environment(trees: Trees) -> None:
    """Both sides would run one file; an environment of Python is meant to be one for both."""
    trees.add("head")
    checkout = trees.specs["head"].checkout
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "pyvenv.cfg").touch()
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    command = Harness((str(checkout / ".venv/bin/python"), "-S", "bench.py", "{out}"), None, 60.0)
    assert list_harness(trees.specs["head"], command, (), ENVIRON)
    with pytest.raises(UsageError, match="the same file for both sides"):
        measure_harness(trees.specs, Harness((str(checkout / "bench"), "{out}"), None, 60.0), task_of(), Progress(), ENVIRON)


HYPERFINE = """\
times = [0.0 if count == NONE else 1.0]
results = [{"command": name, "times": used, "exit_codes": [0]} for name, used in (("a", times), ("b", [1.0]))]
pathlib.Path(sys.argv[1]).write_text(json.dumps({"results": results}))
sys.exit()"""


def test_a_skip_that_ends_leaves_no_samples_of_a_skipped_case(trees: Trees) -> None:
    """A record with samples of a case that was skipped would contradict itself, and no other job would take it in."""
    trees.add("reference", HYPERFINE.replace("NONE", "-1"))
    trees.add("head", HYPERFINE.replace("NONE", "0"))
    harness = Harness((sys.executable, "-S", "bench.py", "{out}"), "hyperfine", 60.0)
    cases = {case.name: case for case in measure_harness(trees.specs, harness, task_of(), Progress(), ENVIRON).cases}
    assert cases["a/default"].skipped
    assert (cases["a/default"].head, cases["a/default"].reference) == ((), ())
    assert len(cases["b/default"].head) == 3
