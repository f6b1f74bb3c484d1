"""The experiment ``flush`` of `biases.py`: which way of emptying the L2 cache makes processes agree?

`biases.py` starts it as a server of fresh processes; ``python research/biases_flush.py --variant NAME`` is one of them by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from biases_figures import Line, Row, Summary, by, correlation, logs_of, p_text, percent, spread
from scipy import stats

from ratchet.core.device.gpu import Gpu
from ratchet.core.device.vendor import vendor_here

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class FlushVariant:
    """A way of emptying the L2 cache before a sample."""

    kind: str
    times: int = 2
    """Size of a buffer, in L2 caches."""
    buffers: int = 4
    """Buffers: as many as places of the workload, one each, as in a check today; else the samples take them in turn."""
    before: bool = False
    """The buffers are allocated before the workload rather than after it."""


VARIANTS = {
    "memset_2x": FlushVariant("memset"),  # what a check does today
    "memset_1x": FlushVariant("memset", 1),
    "memset_4x": FlushVariant("memset", 4),
    "read_2x": FlushVariant("read"),
    "memset_then_read": FlushVariant("memset_then_read"),
    "memset_2x_pause": FlushVariant("memset_pause"),
    "memset_2x_one": FlushVariant("memset", buffers=1),
    "memset_2x_before": FlushVariant("memset", buffers=1, before=True),
    "memset_2x_turns": FlushVariant("memset", buffers=8),
    "none": FlushVariant("none"),
}
FLUSHED = ("rows_8k", "rows_16k")
FLUSH_PLACES, FLUSH_BLOCKS, FLUSH_SAMPLES, FLUSH_WARM_S = 4, 12, 25, 0.2
PAUSE_CYCLES, PROBE_CYCLES = 40_000, 2_000_000
LONGEST_PROCESS_S = 60


def serve_flush() -> None:
    """The server's end: imports torch and the benchmark once, touches no CUDA, forks a fresh process for each request."""
    import_normalize()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(LONGEST_PROCESS_S)
            try:
                rows = flush_process(request["variant"], request["seed"])
            except BaseException as error:  # noqa: BLE001  reported to the controller, whatever it is
                rows = [{"error": f"{type(error).__name__}: {error}"[:300]}]
            os.write(1, (json.dumps({"rows": rows}) + "\n").encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            failure = {"error": f"ended with status {os.waitstatus_to_exitcode(status)}"}
            os.write(1, (json.dumps({"rows": [failure]}) + "\n").encode())


def import_normalize() -> Any:
    sys.path.insert(0, str(ROOT))
    from bench.normalize import normalize

    return normalize


def flush_process(name: str, seed: int) -> list[Row]:
    """Everything one process measures: a row for each config, in an order that alternates."""
    import torch

    gpu = vendor_here().choose_gpu(None, os.environ)
    rows = []
    for config in FLUSHED if seed % 2 == 0 else FLUSHED[::-1]:
        torch.manual_seed(seed)
        rows.append(flush_config(name, seed, config, gpu))
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return rows


def flush_config(name: str, seed: int, config: str, gpu: Gpu | None) -> Row:
    import torch

    device = torch.device("cuda")
    variant = VARIANTS[name]
    benchmark = import_normalize()
    size = variant.times * int(torch.cuda.get_device_properties(device).L2_cache_size)
    spare = flush_buffers(variant, size) if variant.before else []
    workloads = [benchmark(device=device, **benchmark.configs["cuda"][config]) for _ in range(FLUSH_PLACES)]
    calls = [call_of(workload.run, dict(workload.tuning)) for workload in workloads]
    emptied = flusher(variant, spare or flush_buffers(variant, size), size)
    one = torch.zeros(1, device=device)
    clock = EventBlocks(emptied, gpu)
    deadline = time.monotonic() + FLUSH_WARM_S
    turn = 0
    while turn < FLUSH_PLACES or time.monotonic() < deadline:
        clock.take(calls[turn % FLUSH_PLACES], turn)
        turn += 1
    clock.forget()
    blocks = [clock.take(calls[index % FLUSH_PLACES], index) for index in range(FLUSH_BLOCKS)]
    figures = clock.figures()
    tiny = [clock.take(lambda: one.add_(1), index) for index in range(2)]
    samples = np.array(blocks).ravel()
    low, middle, high = np.percentile(samples, [10, 50, 90])
    return {
        "variant": name, "seed": seed, "case": f"normalize/{config}", "samples": samples.size,
        "median_us": float(middle), "p10_us": float(low), "p90_us": float(high),
        "blocks_us": [float(np.median(block)) for block in blocks], "tiny_us": float(np.median(np.array(tiny))),
        "step_us": smallest_step(samples), **figures,
    }  # fmt: skip


def call_of(run: Callable[..., object], tuning: Mapping[str, int]) -> Callable[[], object]:
    return lambda: run(**tuning)


def flush_buffers(variant: FlushVariant, size: int) -> list[Any]:
    import torch

    return [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(variant.buffers if variant.kind != "none" else 0)]


def flusher(variant: FlushVariant, buffers: Sequence[Any], size: int) -> Callable[[int, int], None]:
    """A function of the block's and the sample's number that queues what empties the cache."""
    import torch

    views = [buffer.view(torch.float32) for buffer in buffers]
    total = torch.zeros((), device="cuda")
    other = torch.zeros(size // 4, device="cuda") if variant.kind == "memset_then_read" else None

    def empty(block: int, sample: int) -> None:
        if not buffers:
            return
        chosen = block % len(buffers) if len(buffers) == FLUSH_PLACES else sample % len(buffers)
        if variant.kind == "read":
            torch.sum(views[chosen], dim=0, out=total)
            return
        buffers[chosen].zero_()
        if other is not None:
            torch.sum(other, dim=0, out=total)
        if variant.kind == "memset_pause":
            torch.cuda._sleep(PAUSE_CYCLES)  # time to write back what is on its way

    return empty


class EventBlocks:
    """Blocks of samples between CUDA events, as in ratchet.core.bench.clocks, with the GPU's clock read meanwhile."""

    def __init__(self, empty: Callable[[int, int], None], gpu: Gpu | None) -> None:
        import torch

        self._cuda = torch.cuda
        self._empty = empty
        self._gpu = gpu
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._lead_cycles = 4_000_000
        self._events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(FLUSH_SAMPLES)
        ]
        self._exposed = 0
        self._clocks: list[int] = []
        self._powers: list[float] = []
        self._probes: list[float] = []

    def take(self, call: Callable[[], object], block: int) -> list[float]:
        """Microseconds of each sample."""
        probe = (self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True))
        self._driver.cuCtxResetPersistingL2Cache()
        self._cuda._sleep(self._lead_cycles)
        call()
        for sample, (start, end) in enumerate(self._events):
            self._empty(block, sample)
            start.record()
            call()
            end.record()
        exposed = self._events[-2][1].query()
        # After the samples and still under load: a sleep lasts a known number of SM cycles.
        probe[0].record()
        self._cuda._sleep(PROBE_CYCLES)
        probe[1].record()
        if self._gpu is not None:
            reading = self._gpu.reading()
            self._clocks += [reading.sm_clock_mhz] if reading.sm_clock_mhz is not None else []
            self._powers += [reading.power_w] if reading.power_w is not None else []
        self._cuda.synchronize()
        if exposed:
            self._exposed += 1
            self._lead_cycles = min(2 * self._lead_cycles, 100_000_000)
        self._probes.append(PROBE_CYCLES / (1000 * probe[0].elapsed_time(probe[1])))
        return [1000 * start.elapsed_time(end) for start, end in self._events]

    def forget(self) -> None:
        """Leave out of `figures` what was read so far."""
        self._exposed = 0
        self._clocks, self._powers, self._probes = [], [], []

    def figures(self) -> Row:
        return {
            "exposed": self._exposed,
            "sm_mhz": statistics.median(self._clocks) if self._clocks else None,
            "power_w": statistics.median(self._powers) if self._powers else None,
            "probe_mhz": statistics.median(self._probes) if self._probes else None,
        }


def smallest_step(samples: np.ndarray[Any, Any]) -> float:
    """Return the resolution of the events."""
    steps = np.diff(np.unique(np.round(samples, 4)))
    return float(steps.min()) if steps.size else 0.0


def summarise_flush(experiment: str, rows: Sequence[Row]) -> Summary:
    """The spread of process medians, beside the spread of samples in a process."""
    table, lines = [], []
    medians: dict[tuple[str, str], list[float]] = {}
    for (case, variant), group in sorted(by(rows, "case", "variant").items(), key=lambda item: flush_place(*item[0])):
        logs = [math.log(row["median_us"]) for row in group]
        medians[case, variant] = logs
        between = spread(logs)
        within = statistics.fmean((row["p90_us"] - row["p10_us"]) / 2.563 / row["median_us"] for row in group)
        blocks = statistics.fmean(spread([math.log(value) for value in row["blocks_us"]]) for row in group)
        linked = [correlation(logs, logs_of(group, key)) for key in ("sm_mhz", "probe_mhz", "tiny_us")]
        clocks = [row["probe_mhz"] for row in group if row["probe_mhz"]]
        lines.append(Line(
            experiment, case, f"spread between, {variant}", 100 * between, 100 * between / math.sqrt(max(1, 2 * len(group) - 2)),
            len(group), note=f"within {100 * within:.2f} %",
        ))  # fmt: skip
        table.append((
            case.partition("/")[2], variant, str(len(group)), f"{math.exp(statistics.fmean(logs)):.3f} µs",
            percent(between), percent(within), percent(blocks), f"{statistics.fmean(clocks):.0f}" if clocks else "", *linked,
            str(sum(row["exposed"] for row in group)), f"{min(logs_of(group, 'step_us')):.3f}",
        ))  # fmt: skip
    header = (
        "case",
        "variant",
        "n",
        "median",
        "between",
        "within",
        "blocks",
        "MHz",
        "r SM",
        "r probe",
        "r tiny",
        "exp.",
        "step µs",
    )
    return Summary(header, table, lines, flush_verdict(medians))


def flush_place(case: str, variant: str) -> tuple[int, int]:
    return FLUSHED.index(case.partition("/")[2]), list(VARIANTS).index(variant)


def flush_verdict(medians: Mapping[tuple[str, str], Sequence[float]]) -> str:
    """The quietest variant that empties the cache, against what a check does today (F test of the variances)."""
    sentences = []
    for case in sorted({case for case, _ in medians}):
        today = medians.get((case, "memset_2x"), ())
        others = {
            name: logs
            for (of, name), logs in medians.items()
            if of == case and name not in {"memset_2x", "none"} and len(logs) > 2
        }
        if len(today) < 3 or not others:
            sentences.append(f"{case}: too few processes")
            continue
        best = min(others, key=lambda name: spread(others[name]))
        ratio = (spread(today) / spread(others[best])) ** 2 if spread(others[best]) > 0 else math.inf
        p = float(stats.f.sf(ratio, len(today) - 1, len(others[best]) - 1)) * len(others)
        error = spread(today) / math.sqrt(2 * len(today) - 2)
        sentences.append(
            f"{case}: today {100 * spread(today):.2f} ± {100 * error:.2f} %, least with {best} {percent(spread(others[best]))}"
            f" (p {p_text(min(1.0, p))} after {len(others)} looks)"
        )
    return "; ".join(sentences) or "nothing measured"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", choices=tuple(VARIANTS), help="measure this one and print its rows")
    parser.add_argument("--seed", type=int, default=1, help="with --variant (1)")
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(flush_process(options.variant, options.seed), indent=1))
    else:
        serve_flush()


if __name__ == "__main__":
    main()
