"""Bus bandwidth of collectives by size: ``torchrun --nproc_per_node=8 bench/collectives.py`` (NCCL; gloo where there is no GPU).

The record is one like any other: ``ratchet compare before.json results/collectives.json``. Two commits are compared in turn by
``ratchet check --gpus all --command "torchrun --nproc_per_node=8 bench/collectives.py --json {out}" --format json``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

SIZES = "64KiB,1MiB,16MiB,256MiB"
CPU_SIZES = "64KiB,1MiB"


def main(arguments: list[str] | None = None) -> int:
    """Measure on every rank; rank 0 writes the record and the summary. The exit code."""
    import argparse

    try:
        from ratchet.commands.collectives import CollectivesRequest, measure_collectives
        from ratchet.errors import RatchetError
    except ModuleNotFoundError as error:
        root = Path(__file__).resolve().parent.parent
        print(f"{error.name} is not installed: run `{sys.executable} -m pip install -e {root}` first.", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(description="Measure collectives on every rank of torchrun.")
    parser.add_argument(
        "--operations", help="some of all_reduce,all_reduce_one_shot,all_reduce_two_shot,all_gather,reduce_scatter"
    )
    parser.add_argument("--sizes", help=f"of the whole buffer (default: {SIZES}; on the CPU {CPU_SIZES})")
    parser.add_argument("--repeats", type=int, help="fresh processes of each rank (default: 5; with --json 1)")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto", help="default: GPUs if there are any")
    parser.add_argument("--symmetric-memory", choices=("cuda", "nvshmem"), default="cuda", help="what makes it (default: cuda)")
    parser.add_argument("--json", type=Path, help="write only the times there, for ratchet check --command")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the record (default: results)")
    parser.add_argument("--summary", type=Path, default=Path("profiles"), help="folder of the JSON summary (default: profiles)")
    given = parser.parse_args(arguments)
    repeats = given.repeats if given.repeats is not None else 1 if given.json else 5
    usual = {"cuda": SIZES, "cpu": CPU_SIZES}
    wish = CollectivesRequest(
        given.operations, given.sizes, usual, repeats, given.device, memory=given.symmetric_memory, times=given.json
    )
    try:
        lines = measure_collectives(wish, given.results, given.summary, tuple(sys.argv), os.environ)
    except RatchetError as error:
        print(f"collectives: {error}", file=sys.stderr)
        if summary := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun's last lines then show it
            told = {"message": {"message": str(error), "extraInfo": {"timestamp": int(time.time())}}}
            Path(summary).write_text(json.dumps(told), encoding="utf-8")
        return int(error.exit_code)
    for line in lines:
        print(line)
    return 0


if __name__ == "__main__":
    # Python puts a script's folder on the path, where copy.py would stand in for the standard library's.
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    sys.exit(main())
