"""Search better parameters: ``python bench/autotune.py --config training_512 --time-budget 20`` runs ``ratchet tune``."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

USAGE = 2
"""What ratchet exits with for a case that has nothing to tune, among others."""
NOT_MEASURED = 3


def main(arguments: list[str] | None = None) -> int:
    """Tune every case of the chosen configs that has parameters, one after the other; the worst of their exit codes."""
    import argparse

    parser = argparse.ArgumentParser(description="Search this folder's parameters through ratchet.")
    parser.add_argument("--config", action="append", required=True, help="a config, a benchmark or benchmark/config; repeatable")
    parser.add_argument("--time-budget", type=float, default=20.0, help="minutes, for all cases together (default: 20)")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="where to run; ratchet chooses otherwise")
    options, more = parser.parse_known_args(arguments)
    try:
        from ratchet.core.cli import main as ratchet
    except ModuleNotFoundError as error:
        root = Path(__file__).resolve().parent.parent
        print(f"{error.name} is not installed: run `{sys.executable} -m pip install -e {root}` first.", file=sys.stderr)
        return USAGE
    device = ["--device", options.device] if options.device else []
    code, cases = _listed(ratchet, [*options.config, *device])
    if not cases:
        print(f"No case of {', '.join(options.config)} can be tuned here: see `ratchet doctor cases`.", file=sys.stderr)
        return code or NOT_MEASURED
    seconds = options.time_budget * 60 / len(cases)
    codes = [ratchet(["tune", case, "--time-budget", f"{seconds:.0f}s", *device, *more]) for case in cases]
    return max([each for each in codes if each != USAGE], default=USAGE)


def _listed(ratchet: Callable[[list[str]], int], words: Sequence[str]) -> tuple[int, list[str]]:
    """The exit code of ``ratchet doctor cases``, and the cases that this machine can run."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = ratchet(["list", *words, "--json"])
    text = said.getvalue()
    found = json.loads(text) if text else []
    return code, [case["name"] for case in found if not case["skipped"] and not case["failures"]]


if __name__ == "__main__":
    # Python puts a script's folder on the path, where copy.py would stand in for the standard library's.
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    sys.exit(main())
