"""`ratchet compare --replay`: recorded pairs judged again, or drawn into pull requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.core.records.files import load, save
from ratchet.core.records.run import CaseRun, RunRecord
from ratchet.core.records.verdict import Outcome
from tests import examples
from tests.integration.playground import Finished, Playground, only_json

RECORDED = Path(__file__).parents[1] / "data" / "h200_paired.npz"
QUIET = "attn_1k,attn_2k,attn_4k,attn_512,copy,gemm_2k,gemm_4k,warm:attn_2k"


def replay(play: Playground, *words: object, code: int = 0) -> Finished:
    done = play.ratchet("replay", *map(str, words))
    assert done.code == code, done
    return done


def rates(play: Playground, *words: object) -> dict[str, Any]:
    found = only_json(replay(play, *words, "--json").out)
    assert isinstance(found, dict)
    return found


def outcomes(done: Finished) -> list[dict[str, str]]:
    return [{case["name"]: case["outcome"] for case in each["cases"]} for each in only_json(done.out)["files"]]


def noisy(name: str, ratio: float, pairs_of_eight: int = 1) -> CaseRun:
    """A case of eight pairs, so many times over."""
    pairs = (ratio * (1 + 0.001 * step) for step in (0, 1, -1, 2, -2, 0.5, -0.5, 0) * pairs_of_eight)
    return examples.compared(*pairs, name=name, benchmark=name.partition("/")[0])


def saved(path: Path, *cases: CaseRun) -> Path:
    save(path, examples.run_of(*cases))
    return path


def test_an_archive_is_judged_by_the_gate_that_is_given(play: Playground, tmp_path: Path) -> None:
    """Two percent more work is slower at a gate of 1.5 %, not at 3 %, and red with enough pairs; nothing is written."""
    before = sorted(play.repo.rglob("*"))
    lenient = replay(play, RECORDED, "--cases", "copy*, gemm_4k", "--json")
    same = dict.fromkeys(("copy", "copy+0.5", "copy+1.0", "gemm_4k"), Outcome.UNCHANGED)
    assert outcomes(lenient) == [same | {"copy+2.0": Outcome.INCONCLUSIVE}]
    words = ("--gate", "1.5%", "--cases", "copy,copy+2.0")
    with np.load(RECORDED) as data:
        np.savez(tmp_path / "longer.npz", **{key: np.tile(data[key], (4, 1, 1)) for key in data if key.startswith("copy")})
    for path, code, outcome, headline in (
        (RECORDED, 3, "SLOWER", "1 of 2 cases slower, but not proven; worst: copy+2.0 +2."),
        (tmp_path / "longer.npz", 1, "REGRESSED", "1 of 2 cases slower; worst: copy+2.0 +2."),
    ):
        lines = replay(play, path, *words, code=code).out.splitlines()
        assert [line.split()[0:2] for line in lines[:3]] == [[outcome, "copy+2.0"], ["UNCHANGED", "copy"], [outcome, "copy+2.0:"]]
        assert lines[3].startswith(headline)
    assert sorted(play.repo.rglob("*")) == before


def test_runs_are_judged_as_report_judges_them(play: Playground) -> None:
    """A recorded check gives the lines of `ratchet compare`, and red in any file exits 1."""
    current = play.repo / "results/current.json"
    current.parent.mkdir()
    saved(current, noisy("adds/small", 1.1, 3))
    again = replay(play, current, code=1)
    shown = play.ratchet("report").out.splitlines()
    assert again.out.splitlines() == [line for line in shown if not line.startswith(("Report:", "Page:", "Verdict:"))]
    both = replay(play, RECORDED, current, "--json", code=1)
    assert [each["exit_code"] for each in only_json(both.out)["files"]] == [0, 1]
    titled = replay(play, RECORDED, current, code=1).out.splitlines()
    assert [line for line in titled if line.startswith("# ")] == [f"# {RECORDED}", f"# {current}"]
    assert titled[-len(again.out.splitlines()) :] == again.out.splitlines()
    alone = replay(play, current, RECORDED, "--cases", "adds", "--json", code=1)
    assert outcomes(alone) == [{"adds/small": Outcome.REGRESSED}]


@pytest.mark.slow
def test_unchanged_pull_requests_are_not_red(play: Playground) -> None:
    """Pull requests drawn from unchanged code are rarely red, and what was planted is caught, in a few seconds."""
    words = (RECORDED, "--simulate", 300, "--cases", QUIET, "--pairs", 26, "--seed", 1, "--gate", "3%")
    same = rates(play, *words)
    assert same["any_red"] <= 0.01
    assert same["caught"] is None
    assert (same["runs"], same["pairs"], same["gate"], same["seed"]) == (300, 26, 0.03, 1)
    assert sorted(same["cases"]) == sorted(QUIET.split(","))
    assert set(same["recorded_pairs"].values()) == {6}
    slower = rates(play, *words, "--plant", "copy=1.035", "--plant", "gemm*=1.05")
    assert slower["caught"] >= 0.95
    assert slower["any_red"] <= 0.01
    assert slower["planted"] == {"copy": 1.035, "gemm_2k": 1.05, "gemm_4k": 1.05}
    assert {name for name, share in slower["red"].items() if share > 0.5} == set(slower["planted"])
    assert 6 <= same["pairs_mean"] < slower["pairs_mean"] <= 26


def test_one_seed_draws_the_same_pull_requests(play: Playground) -> None:
    """The same command prints the same rates, and another seed's are others."""
    words = (RECORDED, "--simulate", 30, "--cases", QUIET, "--pairs", 20, "--gate", "3%", "--plant", "gemm*=1.03")
    assert rates(play, *words, "--seed", 1) == rates(play, *words, "--seed", 1)
    assert rates(play, *words, "--seed", 1)["pairs_mean"] != rates(play, *words, "--seed", 2)["pairs_mean"]


def test_pairs_of_all_files_are_drawn_from(play: Playground, tmp_path: Path) -> None:
    """A case in several runs is one case with the pairs of all; a case without pairs is left out, and said to be."""
    gone = examples.compared(1.0, name="gone/c").model_copy(update={"reference": ()})
    first = saved(tmp_path / "a.json", noisy("same/a", 1.0), noisy("slow/b", 1.1))
    second = saved(tmp_path / "b.json", noisy("same/a", 1.0), gone)
    found = rates(play, first, second, "--simulate", 20)
    assert found["recorded_pairs"] == {"same/a": 16, "slow/b": 8, "gone/c": 0}
    assert found["red"] == {"same/a": 0.0, "slow/b": 1.0}
    assert (found["any_red"], found["pairs"]) == (1.0, 100)
    shown = replay(play, first, second, "--simulate", 20).out
    assert "Left out, without pairs: gone/c" in shown
    assert "of pull requests that change nothing are red" in shown.splitlines()[-1]
    narrowed = rates(play, first, second, "--simulate", 20, "--cases", "same", "--cases", "slow", "--plant", "slow/b=0.9")
    assert narrowed["any_red"] == 0
    alone = saved(tmp_path / "c.json", gone)
    assert "no pairs in these files" in replay(play, alone, "--simulate", 5, code=2).sentence
    assert "no pairs of gone" in replay(play, first, second, "--simulate", 5, "--cases", "gone", code=2).sentence


def test_thresholds_of_a_run_can_all_be_changed(play: Playground, tmp_path: Path) -> None:
    """Gate, improvement, confidence and false alarms given on the command line win over those of the run, and only those."""
    path = saved(tmp_path / "run.json", noisy("slow/a", 1.035, 3), noisy("fast/b", 0.97, 3))
    assert outcomes(replay(play, path, "--json", code=1)) == [{"slow/a": Outcome.REGRESSED, "fast/b": Outcome.UNCHANGED}]
    words = ("--improvement", "2%", "--gate", "5%", "--confidence", "0.8", "--json")
    done = replay(play, path, *words)
    assert outcomes(done) == [{"slow/a": Outcome.UNCHANGED, "fast/b": Outcome.IMPROVED}]
    assert {case["comparison"]["confidence"] for case in only_json(done.out)["files"][0]["cases"]} == {0.8}
    surer = replay(play, path, "--false-alarm", "0.00000000001", "--json", code=3)
    assert outcomes(surer) == [{"slow/a": Outcome.SLOWER, "fast/b": Outcome.UNCHANGED}]
    assert load(path, RunRecord).policy.regression == 0.03


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--simulate", "9", "--plant", "cpy=1.03"), "--plant: no recorded case is called cpy. Did you mean copy?"),
        (
            ("--simulate", "9", "--cases", "copy", "--plant", "gemm_2k=1.03"),
            "--plant: there are no pairs of gemm_2k to draw from",
        ),
        (("--simulate", "9", "--plant", "copy"), "--plant copy is not CASE=FACTOR"),
        (("--simulate", "9", "--plant", "copy=3%"), "--plant copy=3% is not CASE=FACTOR"),
        (("--simulate", "9", "--plant", "copy=0"), "a factor above 0"),
        (("--simulate", "9", "--plant", "copy=-1"), "a factor above 0"),
        (("--simulate", "9", "--plant", "copy=nan"), "a factor above 0"),
        (("--simulate", "9", "--plant", "copy=inf"), "a factor above 0"),
        (("--simulate", "9", "--plant", "=1.1"), "is not CASE=FACTOR"),
        (("--simulate", "9", "--cases", "attn_3k"), "--cases: no recorded case is called attn_3k. Did you mean attn_"),
        (("--cases", "nothing_like_it"), "--cases: no recorded case is called nothing_like_it. There are attn_512,"),
        (("--simulate", "9", "--pairs", "2"), "pairs"),
        (("--simulate", "0"), "--simulate 0: that is too few pull requests to say anything."),
        (("--simulate", "-4"), "--simulate -4: that is too few"),
        (("--gate", "3"), "write 3%"),
        (("--confidence", "2"), "confidence"),
        (("--plant", "copy=1.1"), "--plant works with --simulate only"),
        (("--pairs", "8"), "--pairs works with --simulate only"),
        (("--seed", "0"), "--seed works with --simulate only"),
    ],
)
def test_bad_options(play: Playground, words: tuple[str, ...], said: str) -> None:
    """What cannot be done is one sentence that names the option, and exits 2."""
    assert said in replay(play, RECORDED, *words, code=2).sentence


@pytest.mark.parametrize("words", [(), ("--simulate", "5")])
def test_a_bad_archive(play: Playground, tmp_path: Path, words: tuple[str, ...]) -> None:
    """An archive that cannot be used is one sentence that names it, and exits 2, whether judged or drawn from."""
    (tmp_path / "cut.npz").write_bytes(RECORDED.read_bytes()[:20_000])
    sentence = replay(play, RECORDED, tmp_path / "cut.npz", *words, code=2).sentence
    assert f"{tmp_path}/cut.npz is not a NumPy archive, or is damaged" in sentence


def test_bad_runs_and_no_files(play: Playground, tmp_path: Path) -> None:
    """A file that is no run is refused as everywhere; no file at all is wrong usage."""
    path = tmp_path / "run.json"
    path.write_text('{"schema_version": 99}', encoding="utf-8")
    assert "newer ratchet" in replay(play, path, code=2).sentence
    assert "FILE" in replay(play, code=2).err
