"""How near do the strategies come to the optimum of recorded spaces? Replayed, without a GPU.

    python tests/calibration/tuning.py [--seeds 20] [--strategies auto,climb] [--parts] [SPACE.json.gz…]
    python tests/calibration/tuning.py --overhead
    python tests/calibration/tuning.py --enumeration

Prints the fraction of the optimum (the optimum's time over the best's) after 50, 100 and 200 evaluations: the median over the
seeds, and the lowest tenth at 100. ``--parts`` adds spaces that are not recorded as such: parts of the recorded ones (a third
of the values of three parameters left out, so that another configuration is best), and a made-up model of a matrix product.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

from ratchet.tune.replay import Recorded, recorded_space, replayed
from ratchet.tune.search import Search
from ratchet.tune.space import Candidates, Space, candidates
from ratchet.tune.t4 import read_t4

BUDGETS = (50, 100, 200)
STRATEGIES = "auto,climb,random,optuna"
SPACES = Path(__file__).parents[1] / "data" / "tuning"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", type=Path, default=sorted(SPACES.glob("*.json.gz")))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--enumeration", action="store_true")
    given = parser.parse_args()
    if given.overhead:
        overhead()
    elif given.enumeration:
        enumeration()
    else:
        table(given.spaces, given.strategies.split(","), given.seeds, parts=given.parts)
    return 0


def table(paths: list[Path], strategies: list[str], seeds: int, *, parts: bool) -> None:
    spaces = {path.name.removesuffix(".json.gz"): recorded_space(read_t4(path)) for path in paths}
    if parts:
        spaces |= {f"{name}/{seed}": part(space, seed) for name, space in list(spaces.items()) for seed in range(3)}
        spaces |= {f"product/{seed}": product(seed) for seed in range(3)}
    for name, space in spaces.items():
        failed = sum(each is None for each in space.times) / len(space.times)
        print(f"{name}: {space.candidates.count} configurations, {failed:.0%} fail")
        for strategy in strategies:
            began = time.perf_counter()
            runs = np.array([fractions(space, strategy, seed) for seed in range(seeds)])
            each_ms = (time.perf_counter() - began) / runs.size * 1e3
            medians = "  ".join(f"{np.median(runs[:, n - 1]):.3f}" for n in BUDGETS)
            print(
                f"  {strategy:10} {medians}   tenth at 100: {np.quantile(runs[:, 99], 0.1):.3f}   {each_ms:.1f} ms each",
                flush=True,
            )


def fractions(space: Recorded, strategy: str, seed: int) -> list[float]:
    """After each evaluation, up to the largest budget."""
    trace = replayed(space, strategy, seed, BUDGETS[-1]).best_ms
    optimum = space.best_ms or 0.0
    found = [optimum / each if each else 0.0 for each in trace]
    return found + found[-1:] * (BUDGETS[-1] - len(found))


def part(space: Recorded, seed: int) -> Recorded:
    """A third of the values of three parameters left out."""
    rng = np.random.default_rng(seed)
    codes, sizes = space.candidates.codes, space.candidates.space.sizes
    wide = [column for column, size in enumerate(sizes) if size > 1]
    while True:
        kept = np.ones(len(codes), dtype=bool)
        for column in rng.choice(wide, 3, replace=False):
            kept &= ~np.isin(codes[:, column], rng.choice(sizes[column], max(1, round(sizes[column] * 0.35)), replace=False))
        places = np.flatnonzero(kept).tolist()
        if sum(space.times[each] is not None for each in places) > 300:
            break
    configurations = [space.candidates.configuration(each) for each in places]
    names = list(space.candidates.space.parameters)
    values = {name: tuple(sorted({each[name] for each in configurations}, key=str)) for name in names}
    left = Space({name: tuple(v for v in space.candidates.space.parameters[name] if v in set(values[name])) for name in names})
    encoded = np.array([left.encode(each) for each in configurations], dtype=np.int16)
    return Recorded(Candidates(left, encoded, exact=True), tuple(space.times[each] for each in places))


def product(seed: int) -> Recorded:
    """A matrix product's tiles: occupancy, memory, arithmetic, with luck of some tiles and noise of 1.5 %."""
    rng = np.random.default_rng(seed)
    tiles, threads, widths = (16, 32, 64, 128), (8, 16, 32), (1, 2, 4, 8)
    flag = (0, 1)
    space = Space(
        {
            "m": tiles,
            "n": tiles,
            "k": (16, 32),
            "tm": threads,
            "tn": threads,
            "vm": widths,
            "vn": widths,
            "a": flag,
            "b": flag,
            "s": flag,
        },
        (lambda m, tm, vm: m % (tm * vm) == 0, lambda n, tn, vn: n % (tn * vn) == 0, lambda tm, tn: tm * tn <= 512),
    )
    found = candidates(space)
    m, n, k, tm, tn, vm, vn, a, b, s = (
        np.array(values, dtype=float)[found.codes[:, column]] for column, values in enumerate(space.parameters.values())
    )
    outputs = m / tm * n / tn
    registers = outputs + m / tm + n / tn + 16 + rng.uniform(0, 10) * vm
    shared = 4 * k * (a * m + b * n)
    blocks = np.minimum(np.floor(65536 / (registers * tm * tn)), np.floor(49152 / np.maximum(shared, 1)))
    occupancy = np.minimum(blocks * tm * tn, 2048) / 2048
    memory = (
        (1 / m + 1 / n) * rng.uniform(15, 60) * (1 + rng.uniform(0.2, 0.6) * (1 - a) * (vm < 2) + rng.uniform(0.2, 0.6) * (1 - b))
    )
    work = 1 + rng.uniform(0.5, 2) / outputs + rng.uniform(0.1, 0.5) / vm + rng.uniform(0, 0.15) * s
    work += rng.uniform(0.05, 0.2) * np.abs(np.log2(vn) - rng.integers(0, 3))
    busy = np.clip((occupancy + 0.05) * (1 + 0.15 * outputs) * rng.uniform(0.5, 1.2), 0.02, 1)
    times = np.maximum(work, memory) / busy * np.exp(0.015 * rng.standard_normal(found.count))
    lucky = 1 + 0.12 * np.clip(rng.standard_normal((4, 4, 4, 2)), -1, 2)
    times *= lucky[tuple(found.codes[:, column] for column in (0, 1, 5, 7))]
    fails = (registers > 200 + rng.uniform(0, 55)) | (shared > 49152 * rng.uniform(0.4, 0.9)) | (blocks < 1)
    return Recorded(found, tuple(None if bad else float(each) for each, bad in zip(times, fails, strict=True)))


def overhead() -> None:
    """Seconds that proposing takes, in a space of 20,000."""
    found = candidates(Space({f"p{number}": tuple(range(9)) for number in range(6)}), limit=20_000)
    print(f"{found.count} configurations: mean and longest of one proposal")
    for strategy in STRATEGIES.split(","):
        search, took = Search(found, strategy), []
        for number in range(200):
            began = time.perf_counter()
            asked = search.ask()[0]
            took.append((time.perf_counter() - began) * 1e3)
            search.tell(asked, None if number % 5 == 4 else 1.0 + sum((int(value) - 4) ** 2 for value in asked.values()))
        print(
            f"  {strategy:10} {np.mean(took):.1f} ms, {np.max(took):.1f} ms; the last fifty {np.mean(took[150:]):.1f} ms",
            flush=True,
        )


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
        found = candidates(Space(tens, constraints))
        took = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  {name:22} {found.count} kept, {'all' if found.exact else 'a sample'}: {took:.1f} s, {peak:.2f} GiB so far",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
