"""Files that an earlier ratchet wrote are read by this one (tests/data/earlier; tests/data/README.md says how they were made)."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.core.records.files import load, save
from ratchet.core.records.run import RunRecord
from tests.integration.playground import Playground, only_json

EARLIER = Path(__file__).parents[1] / "data" / "earlier"


@pytest.fixture
def play(tmp_path: Path) -> Playground:
    """The repository in which the files were made, with the files where their commands left them."""
    play = Playground(tmp_path)
    subprocess.run(["git", "clone", "-q", "-b", "main", str(EARLIER / "repository.bundle"), str(play.repo)], check=True)
    results = play.repo / "results"
    results.mkdir(exist_ok=True)
    (results / "current.json").write_bytes(gzip.decompress((EARLIER / "current.json.gz").read_bytes()))
    for name in ("baseline.json", "report.json"):
        shutil.copy(EARLIER / name, results / name)
    for place in ("tuning", "results/soak", "results/history/2026-11"):
        (play.repo / place).mkdir(exist_ok=True, parents=True)
    shutil.copy(EARLIER / "tuned.json", play.repo / "tuning" / "tuned.default.amd-epyc.632f13bc82.json")
    shutil.copy(EARLIER / "soak.jsonl", results / "soak" / "2026-11-26-amd-epyc.632f13bc82.jsonl")
    shutil.copy(EARLIER / "history.json", results / "history" / "2026-11" / "20261126T193611Z-1e3e315673-9f63eddcf772.json")
    return play


def test_an_earlier_run_is_judged_again(play: Playground) -> None:
    """`report` finds the slowdown of an earlier run, which had two sessions: it is no pass, and says what is missing."""
    done = play.ratchet("report")
    outcomes = done.outcomes()
    assert outcomes["tuned/default"] == "IDENTICAL"
    assert {outcomes["sums/small"], outcomes["sums/large"]} <= {"SLOWER", "REGRESSED"}
    assert done.code in (1, 3), done
    assert (play.repo / "results" / "ratchet_report.md").read_text(encoding="utf-8").count("sums/small") >= 1


def test_an_earlier_run_is_compared_and_replayed(play: Playground, tmp_path: Path) -> None:
    """`compare` reads it as well, and so does `replay`, to which +160 % is slower at a gate of 99 % too."""
    path, other = "results/current.json", tmp_path / "other.json"
    run = load(play.repo / path, RunRecord)
    save(other, run.model_copy(update={"started_at": run.started_at + timedelta(days=1)}))
    assert play.ratchet("compare", path, str(other)).code in (0, 3)
    replayed = play.ratchet("replay", path, "--gate", "99%")
    assert replayed.code == 3, replayed
    assert "SLOWER     sums/small" in replayed.out


def test_an_earlier_baseline_is_shown_and_verified(play: Playground) -> None:
    """Its entries, and the chain of every case, hold."""
    shown = only_json(play.ratchet("baseline", "show", "--json").out)
    (part,) = shown["fingerprints"].values()
    assert set(part["configs"]) == {"sums/small", "sums/large", "tuned/default"}
    verified = play.ratchet("baseline", "verify")
    assert verified.code == 0, verified


def test_an_earlier_history_is_shown(play: Playground) -> None:
    """`history` has a line for each of its cases."""
    done = play.ratchet("history")
    assert done.code == 0, done
    assert all(name in done.out for name in ("sums/small", "sums/large", "tuned/default"))


def test_an_earlier_soak_is_summed_up(play: Playground) -> None:
    """`soak --report` counts its checks."""
    done = play.ratchet("soak", "--report", "--device", "cpu")
    assert "sums/small" in done.out, done


def test_an_earlier_tuning_record_is_applied(play: Playground) -> None:
    """`tune --apply` reads the record and says what it does with it."""
    done = play.ratchet("tune", "--record", "tuning/tuned.default.amd-epyc.632f13bc82.json", "--apply")
    assert done.code == 0, done
    assert json.loads((play.repo / "bench" / "tuned.json").read_text(encoding="utf-8"))


def test_an_earlier_certificate_says_how_to_get_another(play: Playground) -> None:
    """Its samples were taken in another way: one sentence says so, and what writes a certificate that can be checked."""
    done = play.ratchet("evaluate", "--verify", str(EARLIER / "certificate.json"), "--device", "cpu")
    assert done.code == 2
    assert "certificate.json is a certificate of an earlier version, which this one cannot check. " in done.err
    assert "`ratchet evaluate --certify FILE` writes one." in done.err
