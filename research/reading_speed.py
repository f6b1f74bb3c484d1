"""Seconds and memory that reading a report takes: ``python research/reading_speed.py REPORT.ncu-rep [20]``.

Makes a report of as many launches by repeating those of REPORT, reads it in fresh processes as ``ratchet profile --read`` does,
and prints seconds from the start of the interpreter, and MiB at their highest of the command and of its child.
"""

from __future__ import annotations

import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ratchet.explain import readers

RUNS = 5
READ = """
import resource, sys
from pathlib import Path
from ratchet.explain.readers import read
kernels = read(Path(sys.argv[1])).kernels
most = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(len(kernels), *most)
"""
_RESULTS = 2
_PREAMBLE_BYTES = 8


def repeated(report: bytes, launches: int) -> bytes:
    """The report with its last block of launches again and again at its end: that one holds no strings for the others."""
    (length,) = struct.unpack_from("<I", report, 4)
    place = _PREAMBLE_BYTES + length
    counts: list[tuple[int, bytes]] = []
    while place < len(report):
        (length,) = struct.unpack_from("<I", report, place)
        header = report[place + 4 : place + 4 + length]
        end = place + 4 + length + readers.number(header, readers.PAYLOAD_SIZE)
        if count := readers.number(header, _RESULTS):
            counts.append((count, report[place:end]))
        place = end
    count, last = counts[-1]
    missing = launches - sum(each for each, _ in counts)
    return report + last * max(0, missing // count)


def main(path: Path, launches: int) -> None:
    """Print one line for each run, and the medians."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "repeated.ncu-rep"
        report.write_bytes(repeated(path.read_bytes(), launches))
        seconds, memory = [], []
        for _ in range(RUNS):
            begun = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", READ, str(report)], check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - begun)
            kernels, here, child = done.stdout.split()
            memory.append(float(here) + float(child))
            size = report.stat().st_size / 2**20
            print(f"{kernels} launches, {size:.1f} MiB: {seconds[-1]:.2f} s, {float(here):.0f} + {float(child):.0f} MiB")
        print(f"median {statistics.median(seconds):.2f} s, {statistics.median(memory):.0f} MiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
