"""`ratchet check --command`: somebody's harness, run for both trees in turn. Its times are read from a file, so nothing waits."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.bench.turns import order_of_pair
from ratchet.core.records.verdict import Outcome
from tests.integration.playground import PROOF, Playground, only_json


def times(**cases: float) -> str:
    """The file that the harness of these tests copies: three samples of each case, in milliseconds."""
    return json.dumps({"unit": "ms", "benchmarks": {name: [ms, ms * 1.001, ms * 0.999] for name, ms in cases.items()}})


COPY = ("--device", "cpu", "--command", "cp times.json {out}")
LOGGED = "pwd >> $HARNESS_LOG; cp times.json {out}"


@pytest.fixture
def slower(make: Callable[..., Playground]) -> Playground:
    """A head whose `scan` takes 10 % longer, in which `old` is gone and `new` is there."""
    first, second = times(copy=0.5, scan=1.0, old=1.0), times(copy=0.5, scan=1.1, new=2.0)
    return make({"times.json": first}, {"times.json": second})


def test_both_trees_are_measured_in_fresh_processes_that_take_turns(slower: Playground, tmp_path: Path) -> None:
    """A slower case is red by the same rule, with the same report and exit code; the order of the sides is drawn in each pair."""
    log = tmp_path / "log"
    command = f"sh -c {shlex.quote(LOGGED)}"
    done = slower.ratchet("check", *COPY[:2], *PROOF, "--command", command, "--format", "json", env={"HARNESS_LOG": str(log)})
    assert done.code == 1, done
    assert done.outcomes() == {
        "copy/default": Outcome.UNCHANGED,
        "scan/default": Outcome.REGRESSED,
        "new/default": Outcome.NEW,
        "old/default": Outcome.MISSING,
    }
    assert "scan/default" in done.markdown
    assert '--command "…"' in done.markdown
    assert "0 B" not in done.markdown
    case = done.case("scan/default")
    assert len(case.head) == len(case.reference) == 20
    assert case.workload
    assert case.workload.parameters == {"command": command, "format": "json"}
    trees = [Path(line).name for line in log.read_text().splitlines()]
    pairs = list(zip(trees[::2], trees[1::2], strict=True))
    assert len(pairs) == 20
    drawn = [order_of_pair(done.run.plan.order_seed, "", pair)[1] for pair in range(20)]
    assert pairs == [("head", "base") if head_first else ("base", "head") for head_first in drawn]
    assert len({worker.session for worker in case.head}) == 20
    slower.assert_clean()


def test_one_tree_alone_and_chosen_cases(slower: Playground) -> None:
    """`run` times the checkout in place; a pattern chooses among what the command reports, and one that fits nothing says so."""
    done = slower.ratchet("run", "scan", *COPY, "--pairs", "3", "--json")
    assert done.code == 0, done
    assert [case["name"] for case in only_json(done.out)["cases"]] == ["scan/default"]
    done = slower.ratchet("run", "scam", *COPY, "--pairs", "3")
    assert done.code == 2
    assert "no case called scam. Did you mean scan" in done.sentence


@pytest.mark.slow
def test_settings_choose_the_harness_and_a_baseline_works_with_it(make: Callable[..., Playground]) -> None:
    """What stands in [tool.ratchet] serves every command, such as `list` and a check against the baseline."""
    settings = 'command = "cp times.json {out}"\nformat = "json"\ndevice = "cpu"\n'
    play = make({"times.json": times(copy=0.5)}, {"times.json": times(copy=0.5), "a": "b"}, settings=settings)
    assert play.ratchet("list").out.splitlines() == ["copy/default"]
    assert play.ratchet("check", "--pairs", "6").code == 0
    assert play.ratchet("baseline", "record").code == 0
    play.commit({"times.json": times(copy=0.6)})
    done = play.ratchet("check", "--against-baseline", *PROOF)
    assert done.code == 1, done
    assert done.outcomes() == {"copy/default": Outcome.REGRESSED}


def test_a_command_that_fails_in_the_head_alone_is_red(make: Callable[..., Playground]) -> None:
    """Its cases are known from the reference, and its last words are in the report; it was tried three times."""
    script = "cp times.json $1"
    play = make({"b.sh": script, "times.json": times(copy=0.5)}, {"b.sh": "echo the kernel is wrong; exit 4"})
    done = play.ratchet("check", "--device", "cpu", "--command", "sh b.sh {out}")
    assert done.code == 1, done
    verdict = done.verdict("copy/default")
    assert verdict.outcome is Outcome.FAILED
    assert "`sh b.sh {out}` ended with status 4, in each of 3 tries" in verdict.reason
    assert verdict.last_lines == ("the kernel is wrong",)


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("cp nothing.json {out}", 3, "The command `cp nothing.json {out}` in both trees ended with status 1"),
        ("./bench {out}", 3, "cannot be started (No such file or directory: ./bench)"),
        ("true {out}", 3, "gave no results: out.json does not exist. Run it by hand"),
        ("cp .gitignore {out}", 3, "gave no results: out.json is neither JSON nor a table: it has one column"),
        ("cp times.json out.json", 2, "write {out} for the file"),
        ("cp {checkout}/times.json {out}", 2, "the same file for both sides. Write times.json"),
    ],
)
def test_a_command_that_cannot_work_gives_a_sentence(command: str, code: int, sentence: str, slower: Playground) -> None:
    """It never passes, and says what is wrong with the command rather than with the code."""
    command = command.replace("{checkout}", str(slower.repo))
    done = slower.ratchet("check", "--device", "cpu", "--command", command)
    assert done.code == code, done
    assert sentence in done.sentence


@pytest.mark.slow
def test_a_shard_without_a_case_says_so_against_a_baseline_too(make: Callable[..., Playground]) -> None:
    """The baseline is not to blame when there are more shards than cases."""
    settings = 'command = "cp times.json {out}"\nformat = "json"\ndevice = "cpu"\n'
    play = make({"times.json": times(copy=0.5)}, {"times.json": times(copy=0.5), "a": "b"}, settings=settings)
    assert play.ratchet("check", "--pairs", "6").code == 0
    assert play.ratchet("baseline", "record").code == 0
    done = play.ratchet("check", "--against-baseline", "--shard", "3/3")
    assert done.code == 2, done
    assert "Shard 3/3 has no case: there are fewer cases than shards." in done.sentence


def test_an_entry_without_a_time_is_the_outcome_of_its_case(make: Callable[..., Playground]) -> None:
    """A time that the head has lost is red; what neither side timed is skipped; all others are judged."""
    first = json.dumps({"unit": "ms", "benchmarks": {"copy": [0.5, 0.5005], "lost": [1.0], "never": [None]}})
    second = json.dumps({"unit": "ms", "benchmarks": {"copy": [0.5, 0.5005], "lost": [float("nan")], "never": [None]}})
    play = make({"times.json": first}, {"times.json": second})
    done = play.ratchet("check", *COPY, "--format", "json", *PROOF)
    assert done.code == 1, done
    assert done.outcomes() == {
        "copy/default": Outcome.UNCHANGED,
        "lost/default": Outcome.FAILED,
        "never/default": Outcome.SKIPPED,
    }
    assert "it has a time of nan ms" in done.verdict("lost/default").reason
