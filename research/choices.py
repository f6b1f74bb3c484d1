"""Constants that are choices, at half and at double: ``python research/choices.py`` prints tables of research/README.md.

``--scale`` multiplies the number of simulated histories, 300 of each row.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterable

import numpy as np
from adversary import POLICY, SEED, blamed, creep, pairs_of
from common import row, table, workers

from ratchet.core.judge import drift, evidence
from ratchet.core.judge.comparison import compare_pairs
from ratchet.core.judge.evidence import pairs_to_settle, thresholds_for
from ratchet.core.judge.outcome import decide
from ratchet.core.judge.rule import looks_for_change
from ratchet.core.records.verdict import Outcome

SPREAD = 0.007
DRIFT = {"NEAR": (0.4, 1.0, 1.6), "OWN_LEVEL": (0.0025, 0.01), "OWN_PAIRS": (20, 80)}
"""Values of constants of `ratchet.core.judge.drift`: half and double; of NEAR also 1, above which a change is seen too late."""


def drifted(name: str, value: float, count: int) -> list[str]:
    """Histories in which every merge adds 0.5 or 1 %, and unchanged pull requests where main is near the gate or past it."""
    kept = getattr(drift, name)
    setattr(drift, name, value)
    cells = []
    for step, limits in ((0.005, (0.0401, 0.0508)), (0.01, (0.0401, 0.0612))):
        rng = np.random.default_rng((SEED, round(1e4 * step), round(1e4 * SPREAD)))
        ends = [creep(step, SPREAD, 30, rng) for _ in range(count)]
        cells += [f"{100 * sum(end is not None and end <= limit for end in ends) / count:.1f}" for limit in limits]
    cells += [f"{100 * blamed(slower, SPREAD, 33 * count):.2f}" for slower in (0.029, 0.035)]
    setattr(drift, name, kept)  # the process computes other rows after this one
    return cells


def settle_row(reserve: float, count: int) -> None:
    """Noisy cases that are inconclusive after 20 pairs, measured on for as many pairs as the report suggests."""
    rng = np.random.default_rng(SEED)
    thresholds = thresholds_for(POLICY, 1, looks_for_change(100))
    suggested, settled = [], 0
    for spread, change in ((spread, change) for spread in (0.03, 0.05, 0.08) for change in (0.0, 0.01, 0.02)):
        for log_ratios in rng.normal(math.log1p(change), spread, (count, evidence.MOST_SUGGESTED + 1)):
            first = compare_pairs(pairs_of(log_ratios[:20].tolist()), 0.95)
            assert first is not None
            wanted = pairs_to_settle(first, POLICY, reserve)
            if decide(first, thresholds)[0] is Outcome.INCONCLUSIVE and wanted is not None:
                then = compare_pairs(pairs_of(log_ratios[:wanted].tolist()), 0.95)
                assert then is not None
                suggested.append(wanted)
                settled += decide(then, thresholds)[0] is not Outcome.INCONCLUSIVE
    row(reserve, f"{100 * settled / len(suggested):.0f}", f"{statistics.median(suggested):.0f}")


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every number of runs")
    options = parser.parse_args(None if arguments is None else list(arguments))
    count = max(1, round(300 * options.scale))
    heads = ("+0.5 % merges: red by +4 %", "by +5 %", "+1 % merges: red by +4 %", "by +6 %")
    print(f"{count} histories of each kind, spread of a pair {100 * SPREAD:g} %, all in %.\n")
    table("constant", *heads, "unchanged and red, main at +2.9 %", "at +3.5 %")
    choices = [("NEAR", drift.NEAR), *((name, value) for name, values in DRIFT.items() for value in values)]
    with workers() as pool:
        found = [pool.submit(drifted, *choice, count) for choice in choices]
        for (name, value), cells in zip(choices, found, strict=True):
            kept = getattr(drift, name)
            row(f"{name} {value} instead of {kept}" if value != kept else "as they are", *cells.result())
    print("\nInconclusive after 20 pairs, measured on for as many as suggested.\n")
    table("RESERVE", "settled by then, in %", "pairs (median)")
    for reserve in (1.0, evidence.RESERVE, 2 * evidence.RESERVE):
        settle_row(reserve, max(1, count // 2))


if __name__ == "__main__":
    main()
