"""Search strategies on recorded spaces, without a GPU: how near do they come to the optimum?

    python research/tuning.py [--seeds 20] [--from-seed 0] [--budgets 50,100,200] [--strategies auto,climb]
        [--aside | --chosen | SPACE.json.gz…] [--write FOLDER]
    python research/tuning.py --overhead
    python research/tuning.py --enumeration

Prints the fraction of the optimum (the optimum's time over the best's) after each budget: the median over the seeds; and for
the second budget the mean, the lowest tenth, the lowest quarter, and how many seeds reach 0.97. ``--aside`` takes spaces that
nothing was chosen on: ten of tuning_spaces.py, by a seed used nowhere else, and six of three further families. ``--chosen``
takes those on which searches were compared. ``--write`` writes the spaces as T4 files, for tuning_peers.py, and searches none.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from recorded_spaces import SPACES, RecordedSpace, best_so_far, read
from tuning_spaces import elsewhere, made_up

from ratchet.tune.search import Search
from ratchet.tune.space import Space, candidates
from ratchet.tune.t4 import CORRECT, entry, write_t4

STRATEGIES = "auto,climb,random,tpe"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", type=Path, default=sorted(SPACES.glob("*.json.gz")))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--budgets", default="50,100,200")
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--enumeration", action="store_true")
    given = parser.parse_args()
    if given.overhead:
        overhead()
    elif given.enumeration:
        enumeration()
    else:
        spaces = {path.name.removesuffix(".json.gz"): read(path) for path in given.spaces}
        if given.aside or given.chosen:
            spaces = families(range(50, 51)) | made_up(range(60, 62), unseen=True) if given.aside else families(range(5))
        if given.write:
            for name, space in spaces.items():
                write_t4(given.write / f"{name.replace('/', '_')}.json.gz", results(space))
            return 0
        seeds = range(given.from_seed, given.from_seed + given.seeds)
        table(spaces, given.strategies.split(","), seeds, [int(budget) for budget in given.budgets.split(",")])
    return 0


def results(space: RecordedSpace) -> list[dict[str, Any]]:
    return [
        entry(space.candidates.configuration(place), time_ms, CORRECT if time_ms is not None else "runtime")
        for place, time_ms in enumerate(space.times)
    ]


def families(seeds: range) -> dict[str, RecordedSpace]:
    """The recorded spaces on imaginary other devices, and made-up ones of seven families: one of each for each seed."""
    recorded = {name: read(SPACES / f"{name}.json.gz") for name in ("convolution_a4000", "convolution_rtx3090", "product_h200")}
    moved = {f"{name}/{seed}": elsewhere(space, seed) for name, space in recorded.items() for seed in seeds}
    return moved | made_up(seeds)


def table(spaces: dict[str, RecordedSpace], strategies: list[str], seeds: range, budgets: list[int]) -> None:
    everything: dict[str, list[NDArray[np.float64]]] = {strategy: [] for strategy in strategies}
    for name, space in spaces.items():
        failed = sum(time_ms is None for time_ms in space.times) / len(space.times)
        print(f"{name}: {space.candidates.count} configurations, {failed:.0%} fail")
        for strategy in strategies:
            began = time.perf_counter()
            runs = np.array([fractions(space, strategy, seed, budgets) for seed in seeds])
            each_ms = (time.perf_counter() - began) / len(seeds) / budgets[-1] * 1e3
            everything[strategy].append(runs)
            print(f"  {strategy:10} {line(runs, budgets)}   {each_ms:.1f} ms each", flush=True)
    if len(spaces) > 1:
        print("all:")
        for strategy, of_spaces in everything.items():
            medians = np.array([np.median(runs, axis=0) for runs in of_spaces])
            shown = "  ".join(f"{mean:.3f}" for mean in medians.mean(axis=0))
            means = "  ".join(f"{mean:.3f}" for mean in np.array(of_spaces).mean(axis=(0, 1)))
            lowest = "  ".join(f"{median:.3f}" for median in medians.min(axis=0))
            print(f"  {strategy:10} mean of medians {shown}   mean {means}   lowest median {lowest}")


def line(runs: NDArray[np.float64], budgets: list[int]) -> str:
    """``runs``: shape (seeds, budgets)."""
    at = min(1, len(budgets) - 1)
    second = runs[:, at]
    medians = "  ".join(f"{median:.3f}" for median in np.median(runs, axis=0))
    return (
        f"{medians}   at {budgets[at]}: mean {second.mean():.3f}, tenth {np.quantile(second, 0.1):.3f}, "
        f"quarter {np.quantile(second, 0.25):.3f}, {np.mean(second >= 0.97):.0%} reach 0.97"
    )


def fractions(space: RecordedSpace, strategy: str, seed: int, budgets: list[int]) -> list[float]:
    """Return the fraction of the optimum after each of ``budgets``, of which the largest is last, in one search."""
    trace = best_so_far(space, strategy, seed, budgets[-1])
    optimum = space.best_ms or 0.0
    reached = [optimum / best if best else 0.0 for best in trace]
    return [reached[min(budget, len(reached)) - 1] for budget in budgets]


def overhead() -> None:
    """Milliseconds that proposing takes, in a space of 20,000: by the clock, and on the core."""
    space = candidates(Space({f"p{number}": tuple(range(9)) for number in range(6)}), limit=20_000)
    print(f"{space.count} configurations: one proposal, mean and longest; the last fifty; the same of processor time")
    for strategy in STRATEGIES.split(","):
        search, took, busy = Search(space, strategy), [], []
        for number in range(200):
            began, used = time.perf_counter(), time.process_time()
            asked = search.ask()[0]
            took.append((time.perf_counter() - began) * 1e3)
            busy.append((time.process_time() - used) * 1e3)
            search.tell(asked, None if number % 5 == 4 else 1.0 + sum((int(value) - 4) ** 2 for value in asked.values()))
        shown = (f"{np.mean(ms):.1f} ms, {np.max(ms):.1f} ms; {np.mean(ms[150:]):.1f} ms" for ms in (took, busy))
        print(f"  {strategy:10} {'   '.join(shown)}", flush=True)


def enumeration() -> None:
    """Ten million combinations under constraints of three kinds."""
    tens = {f"p{number}": tuple(range(1, 11)) for number in range(7)}
    rules = {
        "of a few parameters": (lambda p0, p1: p0 * p1 <= 20, lambda p2, p3, p4: p2 * p3 + p4 < 40, lambda p5, p6: p5 % p6 == 0),
        "of all, takes arrays": (lambda p0, p1, p2, p3, p4, p5, p6: p0 * p1 + p2 * p3 + p4 * p5 * p6 < 200,),
        "of all, takes none": (lambda p0, p1, p2, p3, p4, p5, p6: p0 * p1 + p2 * p3 + p4 * p5 * p6 < 200 and p0 != 3,),
    }
    for name, constraints in rules.items():
        began = time.perf_counter()
        kept = candidates(Space(tens, constraints))
        took = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  {name:22} {kept.count} kept, {'all' if kept.exact else 'a sample'}: {took:.1f} s, {peak:.2f} GiB so far",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
