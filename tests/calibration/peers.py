"""What would other tools say of the same samples? ``python tests/calibration/peers.py`` prints the tables of docs/trust.md.

Draws pull requests of eight cases from recorded processes of unchanged code (see tests/data/README.md) and judges them by the
rules in rules.py. In the first table a rule gets, for each case, one process for the reference and another for the head, run
one after the other; in the second, both processes of a pair that took turns; in the third, a case that the host disturbs is
added. Slower code is the head's samples times 1.035 or 1.05. The same for this project's own rule: verdicts.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import rules
from numpy.typing import NDArray
from rules import Floats

DATA = Path(__file__).parents[1] / "data"
UNPAIRED = ("attn_512", "attn_1k", "attn_2k", "attn_4k", "gemm_2k", "gemm_4k", "copy_0", "copy_2")
PAIRED = ("attn_512", "attn_1k", "attn_2k", "attn_4k", "gemm_2k", "gemm_4k", "copy", "warm:attn_2k")
LAUNCH_BOUND = "warm:attn_512"
"""Its pairs differ by tens of percent now and then, because the host stalls."""
EARLIER = 10
PLANTED = (1.0, 1.035, 1.05)
SEED = 5

Booleans = NDArray[np.bool_]
Rule = Callable[[Floats, Floats], bool]


def ten_counts(reference: Floats, head: Floats) -> bool:
    return rules.benchstat(rules.batches(reference, 10), rules.batches(head, 10))


PAIRWISE: dict[str, Rule] = {
    "benchstat": rules.benchstat,
    "benchstat, 10 means of each process": ten_counts,
    "benchstat, and more than 3 %": partial(rules.benchstat, over=0.03),
    "Mann-Whitney, one-sided, 5 %": rules.mann_whitney,
    "bootstrap 95 % over samples, and more than 3 %": rules.bootstrap,
    "bootstrap 95 % over samples, all of it past 3 %": partial(rules.bootstrap, whole=True),
    "nvbench-compare-legacy": rules.nvbench_legacy,
    "nvbench-compare-robust": rules.nvbench_robust,
    "asv, factor 1.1": rules.asv,
    "asv, factor 1.03": partial(rules.asv, factor=1.03),
    "TorchBench, 7 %": rules.torchbench,
    "github-action-benchmark, 200 %": rules.github_action_benchmark,
    "github-action-benchmark, 103 %": partial(rules.github_action_benchmark, threshold=1.03),
}


def processes() -> list[Floats]:
    """For each case: (processes, samples)."""
    with np.load(DATA / "h200_unpaired.npz") as data:
        return [data[name].astype(np.float64) for name in UNPAIRED]


def pairs(names: tuple[str, ...]) -> list[tuple[Floats, Floats]]:
    """For each case: both sides, (pairs, samples). A pair counts twice, since either side of unchanged code can be the head."""
    found = []
    with np.load(DATA / "h200_paired.npz") as data:
        for name in names:
            a, b = (data[f"{name}|{side}"].astype(np.float64) for side in "AB")
            a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
            found.append((np.concatenate((a, b)), np.concatenate((b, a))))
    return found


def of_two_processes(rule: Rule, cases: list[Floats], references: NDArray[np.int64], heads: NDArray[np.int64]) -> list[Booleans]:
    """For each planted slowdown: red or not, (runs, cases). Decides once for each ordered pair of processes, then looks it up."""
    found = []
    for planted in PLANTED:
        red = np.empty(references.shape, dtype=bool)
        for case, samples in enumerate(cases):
            decisions = np.array([[rule(reference, head * planted) for head in samples] for reference in samples])
            red[:, case] = decisions[references[:, case], heads[:, case]]
        found.append(red)
    return found


def of_a_pair(rule: Rule, cases: list[tuple[Floats, Floats]], drawn: NDArray[np.int64]) -> list[Booleans]:
    found = []
    for planted in PLANTED:
        decisions = [np.array([rule(a, b * planted) for a, b in zip(*sides, strict=True)]) for sides in cases]
        found.append(np.stack([decided[drawn[:, case]] for case, decided in enumerate(decisions)], axis=1))
    return found


def of_earlier_runs(cases: list[Floats], orders: list[NDArray[np.int64]]) -> list[Booleans]:
    """The same for the best of ten: `orders` holds, for each case, eleven different processes for each run, the head last."""
    return [
        np.array(
            [
                [rules.best_of_earlier([samples[i] for i in order[:-1]], samples[order[-1]] * planted) for order in drawn]
                for samples, drawn in zip(cases, orders, strict=True)
            ]
        ).T
        for planted in PLANTED
    ]


def row(name: str, found: list[Booleans]) -> str:
    unchanged, slower, slowest = found
    shares = (unchanged.any(axis=1).mean(), unchanged.mean(), slower.mean(), slowest.mean())
    return f"| {name} | " + " | ".join(f"{share:.1%}".replace("%", " %") for share in shares) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3000, help="pull requests to draw")
    runs = parser.parse_args().runs
    rng = np.random.default_rng(SEED)
    header = "any red, unchanged pull request | red, unchanged case | +3.5 % caught | +5 % caught |\n|:--|--:|--:|--:|--:|"

    apart = processes()
    count = len(apart[0])
    references = rng.integers(0, count, (runs, len(apart)))
    heads = (references + rng.integers(1, count, references.shape)) % count
    orders = [np.argsort(rng.random((runs, count)), axis=1)[:, : EARLIER + 1] for _ in apart]
    print(f"| two processes one after the other, {len(apart)} cases, {runs} runs | {header}")
    print(row(f"median more than 3 % above the best of {EARLIER} earlier runs", of_earlier_runs(apart, orders)), flush=True)
    for name, rule in PAIRWISE.items():
        print(row(name, of_two_processes(rule, apart, references, heads)), flush=True)

    for title, names in (("", PAIRED), (f" with {LAUNCH_BOUND}", (*PAIRED, LAUNCH_BOUND))):
        together = pairs(names)
        drawn = rng.integers(0, len(together[0][0]), (runs, len(together)))
        print(f"\n| two processes taking turns, {len(together)} cases{title}, {runs} runs | {header}")
        for name, rule in PAIRWISE.items():
            print(row(name, of_a_pair(rule, together, drawn)), flush=True)


if __name__ == "__main__":
    main()
