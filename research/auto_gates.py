"""Gates that follow the history, on pairs of a real GPU: ``python research/auto_gates.py`` prints a table of research/README.md.

The gate of each case comes from every other recorded check of unchanged code, as the baseline keeps them: one spread a day. Pull
requests are drawn from the pairs of the remaining checks, which no gate has seen, and judged as `ratchet check` does; then the
two halves change places. Slower code is the head's times multiplied by a sixth more than the gate of its case.
"""

from __future__ import annotations

import argparse
import gzip
import json

from common import DATA, Pools, mirrored, pairs_in, row, table, workers

from ratchet.common.auto_gate import BEYOND, gate_of_history
from ratchet.core.judge.comparison import compare_pairs
from ratchet.core.records.run import Policy
from ratchet.core.units import threshold
from ratchet.trust.replay_rule import Rates, simulate

PAIRS = 100
"""Pairs that a case may take: the default of a check."""
SOURCES = ("h200_checks.json.gz", "h200_looks.json.gz")


def halves(source: str) -> list[tuple[dict[str, float], Pools]]:
    """Return the gates that every other check gives, and the pairs of the remaining ones; then the other way round."""
    checks = [check["cases"] for check in json.loads(gzip.decompress(DATA.joinpath(source).read_bytes()))]
    days = [{name: pairs_in(recorded) for name, recorded in check.items()} for check in checks]
    found = []
    for first in (0, 1):
        fitted, kept = days[first::2], days[1 - first :: 2]
        spreads: dict[str, list[float]] = {}
        for day in fitted:
            for name, pairs in day.items():
                if compared := compare_pairs(pairs, 0.95):
                    spreads.setdefault(name, []).append(compared.spread)
        gates = {name: gate for name, seen in spreads.items() if (gate := gate_of_history(seen, Policy(), PAIRS, len(spreads)))}
        pools: Pools = {}
        for day in kept:
            for name, pairs in day.items():
                pools.setdefault(name, []).extend(pairs)
        found.append((gates, mirrored(pools)))
    return found


def rates(gates: dict[str, float], pools: Pools, runs: int, seed: int, *, slower: bool = False) -> Rates:
    """Judge pull requests drawn from the pools, with a slowdown beyond the gate in every case if ``slower``."""
    policy = Policy(follows_history=True, case_gates=gates)
    planted = {name: 1 + BEYOND * policy.of_case(name).regression for name in pools} if slower else None
    return simulate(pools, policy, pairs=PAIRS, runs=runs, seed=seed, planted=planted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="pull requests of unchanged code a half")
    runs = parser.parse_args().runs
    table("recording, gates of one half", "gates", "unchanged: red", "in %", "no answer, in %", "caught, in %", "caught, worst")
    with workers() as pool:
        for source in SOURCES:
            for number, (gates, pools) in enumerate(halves(source)):
                parts = [pool.submit(rates, gates, pools, runs // 10, 100 * number + part) for part in range(10)]
                slowed = pool.submit(rates, gates, pools, runs // 10, 99, slower=True).result()
                done = [part.result() for part in parts]
                red = sum(round(part.any_red * part.runs) for part in done)
                row(
                    f"{source.partition('.')[0]}, {'even' if number else 'odd'}",
                    f"{threshold(min(gates.values()))} to {threshold(max(gates.values()))}",
                    f"{red} of {runs:,}",
                    f"{100 * red / runs:.2f}",
                    f"{100 * sum(part.inconclusive for part in done) / len(done):.2f}",
                    f"{100 * (slowed.caught or 0):.1f}",
                    f"{100 * min(slowed.red.values()):.1f}",
                )


if __name__ == "__main__":
    main()
