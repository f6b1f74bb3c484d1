"""`ratchet doctor soak` in real processes: it counts, gives way to a check, and loses nothing when it is killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.integration.playground import LENIENT, QUICK, Playground, wait_until


def _lines(play: Playground) -> list[str]:
    return [line for path in play.repo.glob("results/soak/*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_a_soak_gives_way_to_a_check_and_survives_a_kill(play: Playground) -> None:
    """A check that would not wait is measured at once; the soak goes on after it, and what it kept outlives kill -9."""
    child = play.start("soak", *QUICK, *LENIENT, "--time", "10m")
    wait_until(lambda: len(_lines(play)) >= 1 or child.poll() is not None, "no decision was kept")
    done = play.check()
    assert done.code == 0, done
    before = len(_lines(play))
    wait_until(lambda: len(_lines(play)) > before or child.poll() is not None, "the soak did not go on")
    child.kill()
    _, err = child.communicate()
    assert "Another run needs the device" in err
    wait_until(lambda: not play.processes(), "hosts or workers outlive the controller")
    report = play.ratchet("soak", "--report", "--json")
    assert report.code == 0, report
    (meter,) = json.loads(report.out)
    assert meter["red"]["of"] == len(_lines(play)) >= 2
    assert meter["cases"][0]["name"] == "adds/small"


@pytest.mark.slow
def test_a_planted_slowdown_is_caught(play: Playground) -> None:
    """With --plant some checks, the second among them, are slower by what was planted, decided so, and counted by themselves."""
    plan = ("--device", "cpu", "--pairs", "20", "--blocks", "2", "--gate", "20%")
    child = play.start("soak", *plan, "--plant", "100%", "--time", "10m")
    wait_until(lambda: len(_lines(play)) >= 2 or child.poll() is not None, "two decisions were not kept")  # the second is slowed
    child.send_signal(signal.SIGINT)
    assert play.finish(child).code == 130
    done = play.ratchet("soak", "--report", "--json")
    found = {meter["planted"]: meter for meter in json.loads(done.out)}
    assert set(found) == {0.0, 1.0}, done
    assert found[1.0]["answers"] == {"REGRESSED": found[1.0]["red"]["of"]}
    assert 0.5 < found[1.0]["cases"][0]["slower"] < 2
    assert found[0.0]["red"]["count"] == 0
    play.assert_clean()


def test_a_report_of_nothing(play: Playground) -> None:
    """Without a decision there is nothing to report, which is no pass; a slowdown that cannot be planted is a usage error."""
    assert play.ratchet("soak", "--report").code == 3
    assert play.ratchet("soak", "--plant", "300%").code == 2
    assert not Path(play.repo, "results", "soak").exists()
