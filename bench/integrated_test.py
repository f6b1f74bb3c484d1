"""A quick look at some configs: ``python bench/integrated_test.py --config training_512`` runs ``ratchet run training_512``."""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int | None:
    """Hand the chosen cases to ``ratchet run``; its exit code."""
    import argparse

    parser = argparse.ArgumentParser(description="Run this folder's benchmarks through ratchet.")
    parser.add_argument("--config", action="append", default=[], help="a config, a benchmark or benchmark/config; repeatable")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="where to run; ratchet chooses otherwise")
    parser.add_argument("--output", help="also write config and performance.mean_time_ms to this file")
    options = parser.parse_args(arguments)
    try:
        from ratchet.core.cli import main as ratchet
    except ModuleNotFoundError as error:
        root = Path(__file__).resolve().parent.parent
        print(f"{error.name} is not installed: run `{sys.executable} -m pip install -e {root}` first.", file=sys.stderr)
        return 2
    device = ["--device", options.device] if options.device else []
    output = ["--seed-format", options.output] if options.output else []
    return ratchet(["run", *options.config, *device, *output])


if __name__ == "__main__":
    # Python puts a script's folder on the path, where copy.py would stand in for the standard library's.
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    sys.exit(main())
