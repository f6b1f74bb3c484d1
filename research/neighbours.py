"""A command among neighbours: ``python research/neighbours.py --seed 1 check --device cpu --base HEAD``.

On every core a process computes for a while and sleeps for a while, 0.05 to 4 s each, until ``ratchet`` has ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import time

SHORTEST_S, LONGEST_S = 0.05, 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the neighbours and, as RATCHET_SEED, of the command")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the command and what it is given")
    options = parser.parse_args()
    neighbours = [
        multiprocessing.Process(target=come_and_go, args=(core, options.seed), daemon=True) for core in os.sched_getaffinity(0)
    ]
    for each in neighbours:
        each.start()
    environ = {**os.environ, "RATCHET_SEED": str(options.seed)}
    return subprocess.run([sys.executable, "-m", "ratchet", *options.words], env=environ, check=False).returncode


def come_and_go(core: int, seed: int) -> None:
    os.sched_setaffinity(0, {core})
    drawn = random.Random(f"{seed}.{core}")
    while True:
        until = time.monotonic() + drawn.uniform(SHORTEST_S, LONGEST_S)
        while time.monotonic() < until:
            sum(range(2000))
        time.sleep(drawn.uniform(SHORTEST_S, LONGEST_S))


if __name__ == "__main__":
    sys.exit(main())
