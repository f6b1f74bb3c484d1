"""What checks took of their devices."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.core.cli import main
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.environment import Card
from ratchet.history.cost import cost_lines, cost_sentence, costs
from ratchet.history.judge import history_run
from ratchet.history.store import append
from tests import examples
from tests import site_examples as scenes
from tests.history_examples import check_of, timed

CASES = ["softmax/rows_4k"]


def _history(folder: Path, seconds: list[float | None]) -> Path:
    """A history with a run each 20 days, the first on 2026-03-14."""
    for number, (run, taken) in enumerate(zip(scenes.runs(len(seconds), CASES), seconds, strict=True)):
        when = examples.STARTED + timedelta(days=20 * number)
        append(folder / "results" / "history", run.model_copy(update={"started_at": when, "device_s": taken}))
    return folder


def test_a_month_has_its_runs_and_a_check_its_median(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs count in the month in which they were measured; one that did not say how long it took is counted and left out."""
    _history(tmp_path, [60.0, None, 120.0, 240.0])
    assert main(["cost", "--json", "--repo", str(tmp_path)]) == 0
    (cost,) = json.loads(capsys.readouterr().out)
    assert [(month["month"], month["runs"], month["unknown"], month["device_minutes"]) for month in cost["months"]] == [
        ("2026-03", 1, 0, 1.0),
        ("2026-04", 2, 1, 2.0),
        ("2026-05", 1, 0, 4.0),
    ]


def test_runs_that_needed_no_device_are_no_checks() -> None:
    """Commits of a walk that were proved the same took no device, so what a check takes is not less by them."""
    first, *others = scenes.runs(4, CASES)
    runs = [first.model_copy(update={"device_s": 600.0}), *(run.model_copy(update={"device_s": 0.0}) for run in others)]
    (cost,) = costs([run.model_copy(update={"started_at": examples.STARTED}) for run in runs])
    assert [(month.runs, month.minutes_each, month.device_minutes) for month in cost.months] == [(4, 10.0, 10.0)]


def test_a_price_is_that_of_the_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two minutes at 3 an hour are 0.1; without a price there is no such column, and the site says the time too."""
    _history(tmp_path, [120.0])
    assert main(["cost", "--price", "3", "--repo", str(tmp_path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "2026-03" in line]
    assert line.split()[-2:] == ["0.100", "0.10"]
    assert main(["cost", "--repo", str(tmp_path)]) == 0
    assert "price" not in capsys.readouterr().out
    assert main(["site", "--repo", str(tmp_path)]) == 0
    assert "In 2026-03 a check took 2 min 00 s of NVIDIA H200" in (tmp_path / "results/site/index.html").read_text()


def test_nothing_known_says_nothing() -> None:
    """Without runs, or with none that says how long it took, there is no sentence, and no figure in the table."""
    assert costs([]) == []
    assert cost_sentence([]) == ""
    assert list(cost_lines([], 1.0)) == []


def test_every_device_of_a_check_counts() -> None:
    """A check of ten seconds on two GPUs took twenty of their seconds."""
    run = check_of(timed(1.0), day=0, head=1)
    cards = tuple(Card(uuid=f"GPU-{number}") for number in range(2))
    for used, seconds in (((), 10.0), (cards, 20.0)):
        environment = run.environment.model_copy(update={"cards": used})
        one = run.model_copy(update={"wall_s": 10.0, "environment": environment})
        assert history_run(one, judge_run(one, Baseline()), Baseline()).device_s == seconds
