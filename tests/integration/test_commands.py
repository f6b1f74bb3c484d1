"""The commands beside `check`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import load
from ratchet.core.records.verdict import SLOWDOWNS, Outcome, ReportRecord
from tests.integration.playground import ADDS, QUICK, SLOW_ADDS, Playground, only_json

TWO = ADDS.replace('{"small": {"size": 2048}}', '{"small": {"size": 2048}, "smaller": {"size": 1024}}')


@pytest.mark.slow
def test_run_compare_report_and_baseline_follow_each_other(make: Callable[..., Playground], tmp_path: Path) -> None:
    """`run` times alone, `compare` judges two runs, refuses those of other machines, `baseline record` keeps the best."""
    play = make({"bench/adds.py": TWO})
    alone = play.ratchet("run", "small", *QUICK)
    assert alone.code == 0, alone
    assert alone.outcomes() == {"adds/small": Outcome.MEASURED}
    first = tmp_path / "first.json"
    play.repo.joinpath("results/current.json").rename(first)

    recorded = play.ratchet("baseline", "record", str(first))
    assert recorded.code == 0, recorded
    assert "1 entered" in recorded.out
    stored = load(play.repo / "results/baseline.json", Baseline)
    assert [entry.git_commit for part in stored.fingerprints.values() for entry in part.configs.values()] == [
        play.git("rev-parse", "HEAD")
    ]
    assert Baseline.model_validate(only_json(play.ratchet("baseline", "show", "--json").out)) == stored

    play.repo.joinpath("bench/adds.py").write_text(SLOW_ADDS, encoding="utf-8")
    assert play.ratchet("run", *QUICK).code == 0
    compared = play.ratchet("compare", str(first), "results/current.json", "--gate", "60%", "--json")
    assert compared.code in (1, 3), compared  # between two times nothing cancels, so noise may hide the proof
    report = ReportRecord.model_validate(only_json(compared.out))
    assert all(case.outcome in SLOWDOWNS for case in report.cases)
    assert len(report.cases) == 1
    dirty = play.ratchet("baseline", "record")
    assert dirty.code == 2
    assert "uncommitted changes" in dirty.sentence

    other = json.loads(first.read_text(encoding="utf-8"))
    other["environment"]["fingerprint"]["cpu"] = "Another CPU"
    first.write_text(json.dumps(other), encoding="utf-8")
    apart = play.ratchet("compare", str(first), "results/current.json")
    assert apart.code == 3
    assert "different machines or software" in apart.sentence


@pytest.mark.slow
def test_report_judges_again_by_another_gate(make: Callable[..., Playground]) -> None:
    """`report` gives the verdict of a recorded run again, and another one under another gate, without measuring."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": SLOW_ADDS})
    assert play.check().code == 3
    same = play.ratchet("report")
    assert same.code == 3
    assert same.outcomes() == {"adds/small": Outcome.SLOWER}
    lenient = play.ratchet("report", "results/current.json", "--gate", "99%", "--json")
    assert ReportRecord.model_validate(only_json(lenient.out)).policy.regression == 0.99
    assert lenient.report.policy.regression == 0.99
    missing = play.ratchet("report", "nowhere.json")
    assert missing.code == 2
    assert "nowhere.json does not exist" in missing.sentence


def test_list_shows_cases_and_names_broken_files(make: Callable[..., Playground]) -> None:
    """`list` prints every case with its parameters, `--json` the same for machines; a broken file makes it exit 1."""
    play = make({"bench/adds.py": TWO})
    listed = play.ratchet("list", "--device", "cpu")
    assert listed.code == 0
    assert [line.split() for line in listed.out.splitlines()] == [["adds/small", "size=2048"], ["adds/smaller", "size=1024"]]
    play.repo.joinpath("bench/broken.py").write_text("import\n", encoding="utf-8")
    broken = play.ratchet("list", "--device", "cpu", "--json")
    assert broken.code == 1
    assert [case["name"] for case in only_json(broken.out)][:2] == ["adds/small", "adds/smaller"]
    assert "SyntaxError" in broken.out


@pytest.mark.slow
def test_doctor_says_a_line_for_each_thing(play: Playground) -> None:
    """`doctor` exits 0 in any state of the machine, and prints one JSON document with --json."""
    done = play.ratchet("doctor")
    assert done.code == 0, done
    assert "git" in done.out
    assert only_json(play.ratchet("doctor", "--json").out)
    without = play.ratchet("doctor", env={"PATH": str(play.temp)})
    assert without.code == 0, without
    assert "Traceback" not in without.err


@pytest.mark.parametrize("words", [("--help",), ("check", "--help"), ("--version",)])
def test_help_needs_no_repository(play: Playground, words: tuple[str, ...]) -> None:
    """Help and version work anywhere, even without git."""
    done = play.ratchet(*words, cwd="/", env={"PATH": os.devnull})
    assert done.code == 0
    assert done.err == ""


def test_open(make: Callable[..., Playground]) -> None:
    """`ratchet check --open` names the page of the last check, and says what to do where there is none."""
    play = make({"bench/adds.py": ADDS})
    done = play.ratchet("open", "--json")
    assert (done.code, "Run `ratchet check` first" in done.err) == (2, True)
    page = play.repo / "results" / "report.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text("<!doctype html>", encoding="utf-8")
    done = play.ratchet("open", "--json")
    assert (done.code, json.loads(done.out)) == (0, {"page": str(page)})
