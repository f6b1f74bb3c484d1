"""Kernel Tuner in the same recorded spaces: its simulation mode, strategy by strategy.

    python research/tuning_peers.py [--seeds 20] [--strategies a,b] [SPACE.json.gz…]

Needs ``kernel_tuner`` (1.5) in the interpreter that runs it, and nothing of ratchet: give it an environment of its own. Every
strategy gets the recorded configurations as its space, and a run of its own for each budget. Prints the fraction of the
optimum, median over the seeds, as ``tuning.py`` does for ours.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import math
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

BUDGETS = (50, 100, 200)
STRATEGIES = (
    "random_sample",
    "greedy_mls",
    "greedy_ils",
    "mls",
    "genetic_algorithm",
    "diff_evo",
    "pso",
    "firefly_algorithm",
    "simulated_annealing",
    "dual_annealing",
    "basinhopping",
    "hybrid_vndx",
    "adaptive_tabu_greywolf",
    "bayes_opt",
)
SPACES = Path(__file__).parents[1] / "tests" / "data" / "tuning"
FAILED = 1e20
"""Kernel Tuner's own number for a configuration that failed, above which nothing counts as a time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", type=Path, default=sorted(SPACES.glob("*.json.gz")))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    given = parser.parse_args()
    try:
        import kernel_tuner  # noqa: F401
    except ImportError:
        print("kernel_tuner is not installed here: pip install kernel_tuner into an environment of its own.", file=sys.stderr)
        return 2
    for path in given.spaces:
        with gzip.open(path) as file:
            results = json.load(file)["results"]
        print(f"{path.name}: fraction of the optimum after {BUDGETS} evaluations, median of {given.seeds} seeds", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache.json"
            cache.write_text(json.dumps(cache_of(results)))
            for strategy in given.strategies.split(","):
                began = time.perf_counter()
                medians = [
                    statistics.median(fraction(results, cache, strategy, seed, n) for seed in range(given.seeds)) for n in BUDGETS
                ]
                shown = "  ".join(f"{median:.3f}" for median in medians)
                print(f"  {strategy:24} {shown}   ({time.perf_counter() - began:.0f} s)", flush=True)
    return 0


def cache_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Kernel Tuner's cache file of a recorded space."""
    entries = {}
    for result in results:
        settings = result["configuration"]
        value: Any = result["measurements"][0]["value"] if result["invalidity"] == "correct" else "RuntimeFailedConfig"
        timings = dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 0)
        entries[",".join(map(str, settings.values()))] = {**settings, "time": value, **timings}
    names = list(results[0]["configuration"])
    return {
        "device_name": "recorded",
        "kernel_name": "recorded",
        "problem_size": [1, 1],
        "tune_params_keys": names,
        "tune_params": values_of(results),
        "objective": "time",
        "cache": entries,
    }


def values_of(results: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: sorted({result["configuration"][name] for result in results}) for name in results[0]["configuration"]}


def fraction(results: list[dict[str, Any]], cache: Path, strategy: str, seed: int, evaluations: int) -> float:
    """The optimum over the best that one run found; 0 where it found nothing."""
    from constraint import FunctionConstraint
    from kernel_tuner import tune_kernel

    names = list(results[0]["configuration"])
    valid = {tuple(result["configuration"][name] for name in names) for result in results}
    optimum = min(result["measurements"][0]["value"] for result in results if result["invalidity"] == "correct")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluated, _ = tune_kernel(
            "recorded",
            "__global__ void recorded() {}",
            (1, 1),
            [],
            values_of(results),
            restrictions=[FunctionConstraint(lambda *values: values in valid)],
            lang="CUDA",
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            cache=str(cache),
            simulation_mode=True,
            seed=seed,
            quiet=True,
        )
    times = [one["time"] for one in evaluated[:evaluations] if isinstance(one.get("time"), int | float)]
    best = min((time_ms for time_ms in times if time_ms < FAILED), default=math.inf)
    return float(optimum / best)


if __name__ == "__main__":
    sys.exit(main())
