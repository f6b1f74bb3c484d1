"""What `ratchet compare --replay` prints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ratchet.core.judge.comparison import Pair
from ratchet.core.judge.evidence import session_of
from ratchet.core.records.run import Policy
from ratchet.trust.calibration_report import (
    ReplayedFile,
    Simulation,
    file_line,
    judged_json,
    judged_lines,
    simulation_json,
    simulation_lines,
)
from ratchet.trust.replay_rule import Rates, ReplayVerdict, judge_pairs
from tests import examples

Golden = Callable[[str, str], None]

RATES = Rates(
    any_red=0.0004,
    caught=0.975,
    inconclusive=0.0123,
    pairs_mean=7.26,
    runs=2500,
    red={"attention/training_512": 0.0004, "copy/mib_256": 0.975, examples.HOSTILE: 0.0},
)
SIMULATION = Simulation(
    rates=RATES,
    policy=Policy(regression=0.01),
    pairs=20,
    seed=7,
    planted={"copy/mib_256": 1.015},
    recorded={"attention/training_512": 144, "copy/mib_256": 6, examples.HOSTILE: 12, "gemm/2k": 0},
)


def judged() -> ReplayVerdict:
    """A slower case, one that is the same, two with too few pairs, one whose name is an attack."""
    noise = (0.999, 1.0, 1.001, 1.0005, 0.9995, 1.0, 1.0, 0.9998)

    def pool(ratio: float, count: int = 24) -> list[Pair]:
        noises = enumerate((noise * 3)[:count])
        return [Pair(math.log(ratio * each), 0.0412 * ratio * each, 0.0412, session_of(pair)) for pair, each in noises]

    pools = {"attn_512": pool(1.05), "attn_1k": pool(1.05, 8), "copy": pool(1.0, 8), "gemm_2k": pool(1, 2)}
    return judge_pairs(pools | {examples.HOSTILE: pool(0.9)}, Policy())


def test_verdicts_of_recorded_pairs(golden: Golden) -> None:
    """A line a case, its reason where something is to be said, and the headline; a name from a file is only ever text."""
    lines = judged_lines(judged())
    golden("replay_judged.txt", "\n".join([file_line(ReplayedFile(Path("a\x1b[31m.npz"), judged())), *lines, ""]))
    assert not any(line.startswith(("::", "##[")) for line in lines)


def test_no_case_is_still_a_headline() -> None:
    """Nothing recorded prints what that means."""
    assert judged_lines(judge_pairs({}, Policy())) == ["Nothing was measured: no benchmark."]


def test_rates_of_drawn_pull_requests(golden: Golden) -> None:
    """What was drawn, the cases, the rates and one sentence of what they mean."""
    golden("replay_simulated.txt", "\n".join([*simulation_lines(SIMULATION), ""]))


def test_rates_without_a_plant() -> None:
    """Where nothing was planted, nothing could be caught."""
    lines = simulation_lines(replace(SIMULATION, rates=replace(RATES, caught=None), planted={}))
    assert lines[-1].startswith("Drawn from these pairs, 0.04 % of pull requests that change nothing are red")
    assert next(line for line in lines if line.startswith("Planted cases caught")).endswith("–")


def test_json_of_drawn_pull_requests() -> None:
    """Machines get every rate as a fraction, and from what it was drawn."""
    found = json.loads(json.dumps(simulation_json(SIMULATION)))
    assert {key: found[key] for key in ("any_red", "caught", "inconclusive", "pairs_mean", "runs", "pairs", "gate", "seed")} == {
        "any_red": 0.0004,
        "caught": 0.975,
        "inconclusive": 0.0123,
        "pairs_mean": 7.26,
        "runs": 2500,
        "pairs": 20,
        "gate": 0.01,
        "seed": 7,
    }
    assert found["planted"] == {"copy/mib_256": 1.015}
    assert found["cases"] == list(found["red"]) == list(RATES.red)
    assert found["recorded_pairs"]["gemm/2k"] == 0


def test_json_of_recorded_pairs() -> None:
    """Machines get the verdict of each file with its cases, and the exit code of all."""
    found = json.loads(json.dumps(judged_json([ReplayedFile(Path("a.npz"), judged())], 1)))
    assert found["exit_code"] == 1
    assert [each["file"] for each in found["files"]] == ["a.npz"]
    outcomes = [case["outcome"] for case in found["files"][0]["cases"]]
    assert outcomes == ["REGRESSED", "SLOWER", "UNCHANGED", "INCONCLUSIVE", "IMPROVED"]
