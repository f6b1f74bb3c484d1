"""How much is measured: rounds, the budget, and the best commit of the baseline."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ratchet.core.records.verdict import SLOWDOWNS, Outcome
from tests.integration.playground import ADDS, PROOF, SLOW_ADDS, Playground

EXTRA, SLOW_EXTRA = (text.replace("def adds", "def extra") for text in (ADDS, SLOW_ADDS))


def slower(calls: int) -> str:
    """The benchmark with so many calls more; it has 41."""
    more = f"    def run():\n        for _ in range({calls}):\n            x + 1\n        time.sleep({calls} * 5e-5)"
    return ADDS.replace("    def run():", more)


@pytest.mark.slow
def test_only_what_is_undecided_is_measured_on(make: Callable[..., Playground]) -> None:
    """A case that did not change takes a few pairs, one that looks slower takes those of the six sessions that a change needs."""
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA}, {"bench/extra.py": SLOW_EXTRA})
    done = play.check(*PROOF)
    assert done.code == 1, done
    assert done.outcomes() == {"adds/small": Outcome.UNCHANGED, "extra/small": Outcome.REGRESSED}
    few, many = (done.pairs(name) for name in ("adds/small", "extra/small"))
    assert len(few) < 20 < 26 <= len(many)
    assert many == list(range(len(many)))
    assert len({worker.session for worker in done.case("extra/small").head}) >= 6
    assert not any(worker.is_light for worker in done.case("extra/small").head)
    assert done.run.plan.pairs == 40


SLOW_CALLS = ADDS.replace("import time\n", "import itertools\nimport time\n").replace(
    "    def run():\n",
    "    calls = itertools.count()\n\n    def run():\n        if next(calls) % 10 == 9:\n            time.sleep(0.1)\n",
)
"""One call in ten takes 50 times as long."""


@pytest.mark.slow
def test_calls_that_are_slow_now_and_then_are_no_pass(make: Callable[..., Playground]) -> None:
    """A head of which the median call takes as long as before, and one call in ten 50 times as long, is slower by the mean."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": SLOW_CALLS})
    done = play.check("--pairs", "20", "--blocks", "8")
    verdict = done.verdict("adds/small")
    assert verdict.outcome in SLOWDOWNS, done
    assert verdict.comparison
    assert (verdict.comparison.source, verdict.comparison.ratio > 1.9) == ("total", True), done
    assert done.code in (1, 3)


@pytest.mark.slow
def test_the_budget_ends_the_measuring(make: Callable[..., Playground]) -> None:
    """Once the budget is spent, what looks slower gets the pairs of six sessions, a proof; so does what looks faster, until it
    has one."""
    play = make({"bench/adds.py": ADDS, "bench/extra.py": SLOW_EXTRA}, {"bench/adds.py": SLOW_ADDS, "bench/extra.py": EXTRA})
    done = play.check(*PROOF, "--budget", "1ms")
    assert len(done.pairs("adds/small")) == 26
    assert len(done.pairs("extra/small")) in (20, 26)
    assert done.code in (1, 3), done
    assert done.verdict("adds/small").outcome in SLOWDOWNS
    assert done.verdict("extra/small").outcome not in SLOWDOWNS
    assert done.run.plan.budget_s == 0.001


def test_a_run_alone_takes_eight_workers(play: Playground) -> None:
    """Timed alone, a case takes eight workers, or as many as are asked for."""
    done = play.ratchet("run", "--device", "cpu", "--blocks", "2")
    assert len(done.case("adds/small").head) == 8
    done = play.ratchet("run", "--device", "cpu", "--blocks", "2", "--pairs", "3")
    assert len(done.case("adds/small").head) == 3


def test_against_a_baseline_that_names_no_commit(play: Playground) -> None:
    """`--against-baseline` has nothing to compare with, which is a usage error, and not a pass."""
    none = play.check("--against-baseline")
    assert none.code == 2
    assert none.sentence.startswith("The baseline names no commit for this machine")


@pytest.mark.slow
def test_small_slowdowns_add_up(make: Callable[..., Playground]) -> None:
    """A change inside the gate is red where, with what came before it, the head is past the gate against the best commit."""
    play = make({"bench/adds.py": ADDS}, {"notes.txt": "1\n"})
    best = play.git("rev-parse", "HEAD")
    assert play.check(*PROOF).code == 0
    assert play.ratchet("baseline", "record").code == 0
    play.git("add", "results/baseline.json")
    play.commit({"bench/adds.py": slower(25)}, "1.6 times the time")
    first = play.check(*PROOF, "--gate", "95%")
    assert (first.code, first.run.best) == (0, ()), first
    play.commit({"bench/adds.py": slower(70)}, "and 1.6 times that")
    second = play.check(*PROOF, "--gate", "95%")
    assert second.code == 1, second
    case = second.verdict("adds/small")
    assert case.comparison
    assert case.comparison.ratio < 1.95
    assert case.best
    assert case.best.ratio > 1.95
    assert case.best_tree
    assert case.best_tree.commit == best
    assert f"than the best commit {best[:10]}" in case.reason
    play.commit({"notes.txt": "2\n"}, "innocent")
    third = play.check(*PROOF, "--gate", "95%")
    assert (third.code, third.run.best) == (0, ()), third
    play.assert_clean()


@pytest.mark.slow
def test_calibrate(play: Playground) -> None:
    """Where the time gave too few pairs, it says how many there were, how many are needed, and a time that is enough.

    With that much, it says what the machine can tell apart on unchanged code, and writes both files.
    """
    words = ("calibrate", "--device", "cpu", "--blocks", "2", "--gate", "60%", "--time")
    done = play.ratchet(*words, "10ms")
    assert done.code == 3
    assert done.sentence.startswith("0.01 s gave 6 pairs of each case, and 12 are needed")
    (enough,) = re.findall(r"about (\d+) s would do\.$", done.sentence)
    done = play.ratchet(*words, f"{enough}s")
    assert "This machine holds the gate of 60 %" in done.out, done
    assert "adds/small" in done.out
    assert done.code == 0
    assert play.repo.joinpath("results/calibration.json").is_file()
    assert play.repo.joinpath("results/calibration_samples.json").is_file()
    play.assert_clean()


def test_calibrate_needs_time(play: Playground) -> None:
    """No time, or one that cannot be read, is a usage error."""
    for wrong in ("0s", "soon"):
        assert play.ratchet("calibrate", "--time", wrong).code == 2
