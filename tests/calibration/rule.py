"""How often is a run red? ``python tests/calibration/rule.py`` prints what docs/trust.md says of unchanged and of slower code.

Draws runs of 8 pairs for every case from recorded pairs, with replacement, and judges them by the rule of `ratchet check`.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from intervals import pools
from numpy.typing import NDArray

from ratchet.judge.outcome import decide
from ratchet.records.policy import Policy
from ratchet.records.verdict import Comparison, Outcome
from ratchet.stats.evidence import chance
from ratchet.stats.interval import bootstrap_interval, centre

PAIRED = Path(__file__).parents[1] / "data" / "h200_paired.npz"
PAIRS, RUNS, PLANTED_RUNS, SEED = 8, 3000, 300, 11
POLICY = Policy()

Floats = NDArray[np.float64]


def paired_pools() -> dict[str, Floats]:
    """Case → log ratios of the pairs of unchanged code in the other collection."""
    data = np.load(PAIRED)
    names = sorted({key.split("|")[0] for key in data.files} - {"copy+0.5", "copy+1.0", "copy+2.0", "attn_2k_slow"})
    medians = {key: np.median(data[key], axis=2) for key in data.files}
    return {name: np.median(np.log(medians[f"{name}|B"] / medians[f"{name}|A"]), axis=1) for name in names}


def is_red(logs: list[float], cases: int) -> bool:
    policy = POLICY.shared(cases)
    if centre(logs) <= math.log1p(policy.regression):
        return False  # what decides first, and saves a bootstrap
    found = bootstrap_interval(logs, policy.confidence)
    comparison = Comparison(
        ratio=math.exp(found.centre), low=math.exp(found.low), high=math.exp(found.high), confidence=policy.confidence,
        chance=chance(logs), cliffs_delta=0, pairs=len(logs), detectable=1,
    )  # fmt: skip
    return decide(comparison, policy)[0] is Outcome.REGRESSED


def share_red(found: dict[str, Floats], rng: np.random.Generator, runs: int, planted: float = 1.0) -> float:
    """Share of runs with a red case."""
    shift = math.log(planted)
    red = (any(is_red(list(rng.choice(pool, PAIRS) + shift), len(found)) for pool in found.values()) for _ in range(runs))
    return sum(red) / runs


def main() -> None:
    rng = np.random.default_rng(SEED)
    first, launch_bound = paired_pools(), "warm:attn_512"
    quiet = {name: pool for name, pool in first.items() if name != launch_bound}
    for title, found in (("tests/data/h200_checks", pools()), ("h200_paired", quiet), (f"h200_paired and {launch_bound}", first)):
        print(f"{title}, {len(found)} cases: any red in {share_red(found, rng, RUNS):.2%} of {RUNS} unchanged runs")
    for title, found in (("h200_checks", pools()), ("h200_paired", quiet)):
        for name, pool in found.items():
            caught = []
            for planted in (1.035, 1.05):
                runs = (list(rng.choice(pool, PAIRS) + math.log(planted)) for _ in range(PLANTED_RUNS))
                caught.append(sum(is_red(run, len(found)) for run in runs) / PLANTED_RUNS)
            print(f"{title}  {name:24}  +3.5 % {caught[0]:7.1%}  +5 % {caught[1]:7.1%}")


if __name__ == "__main__":
    main()
