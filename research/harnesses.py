"""Times of fresh processes of the same code, as other tools take them: for a machine with an NVIDIA GPU.

``python research/harnesses.py --out harnesses.json`` measures three cases, and the copy once more with 3.5 % more
elements, in fresh processes by each of Triton's ``do_bench``, PyTorch's ``Timer`` and nvbench. It prints for each how much the
reported times differ between processes, how many ordered pairs of processes of unchanged code differ by more than 3 %, and how
many of the longer copy; for nvbench also what its own two comparison tools say of each pair.

Needs torch with CUDA, and Triton; it works offline. nvbench needs the wheel ``cuda-bench`` (0.3.0 for Python 3.12:
``cuda_bench-0.3.0-cp312-cp312-manylinux_2_27_x86_64.whl``) with ``cuda-bindings`` of CUDA's major version, and its comparison
tools need ``numpy``, ``colorama`` and ``tabulate``. What is missing or fails is a line in the output, and the rest goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

GATE = 0.03
PLANTED = 0.035
ATTENTION, GEMM, COPY, LONGER_COPY = "attention_2k", "gemm_4k", "copy_256", "copy_256_longer"
UNCHANGED = (ATTENTION, GEMM, COPY)
MIB = 1 << 20

COMPARE_TOOLS = {
    "nvbench-compare-legacy": "cuda.bench.scripts.nvbench_compare",
    "nvbench-compare-robust": "cuda.bench.scripts.nvbench_compare_robust",
}
STATUSES = ("SLOW", "FAST", "SAME", "AMBG", "????")

Runs = dict[str, Callable[[], object]]
Times = dict[str, float]
"""Case → milliseconds, as one process reported them."""


class Failed(Exception):
    """A process of a harness ended without times."""


# In a fresh process: one harness, all cases


def workloads() -> Runs:
    """bfloat16 causal attention (8, 16, 2048, 128), a bfloat16 matrix product, a copy of 256 MiB, and one 3.5 % longer."""
    import torch

    torch.manual_seed(0)
    q, k, v = (torch.randn(8, 16, 2048, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    elements = 256 * MIB // 4
    more = round(elements * (1 + PLANTED) / 1024) * 1024  # a round number, so that the same code copies it
    x, y = torch.randn(elements, device="cuda"), torch.randn(more, device="cuda")
    x_out, y_out = torch.empty_like(x), torch.empty_like(y)
    return {
        ATTENTION: lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        GEMM: lambda: torch.mm(a, b, out=product),
        COPY: lambda: x_out.copy_(x),
        LONGER_COPY: lambda: y_out.copy_(y),
    }


def by_do_bench(runs: Runs, _: Path) -> dict[str, Times]:
    from triton.testing import do_bench

    return {"do_bench": {name: do_bench(run, return_mode="median") for name, run in runs.items()}}


def by_timer(runs: Runs, _: Path) -> dict[str, Times]:
    from torch.utils.benchmark import Timer

    return {"Timer": {name: Timer("run()", globals={"run": run}).blocked_autorange().median * 1e3 for name, run in runs.items()}}


def by_nvbench(runs: Runs, output: Path) -> dict[str, Times]:
    from cuda import bench

    for name, run in runs.items():
        bench.register(_nvbench_function(run)).set_name(name)
    bench.run_all_benchmarks([sys.argv[0], "--devices", "0", "--jsonbin", str(output)])
    root = json.loads(output.read_text(encoding="utf-8"))
    return {"nvbench, median": nvbench_times(root, "median"), "nvbench, mean": nvbench_times(root, "mean")}


def _nvbench_function(run: Callable[[], object]) -> Callable[[Any], None]:
    """nvbench blocks its stream while it queues work, so what would wait for the GPU, such as an allocation, comes first."""
    import torch

    def launch(launched: Any) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(launched.get_stream().addressof())):
            run()

    def measured(state: Any) -> None:
        for _ in range(3):
            launch(state)
        torch.cuda.synchronize()
        state.exec(launch, batched=False)

    return measured


HARNESSES: dict[str, Callable[[Runs, Path], dict[str, Times]]] = {
    "do_bench": by_do_bench,
    "timer": by_timer,
    "nvbench": by_nvbench,
}


def measure(harness: str, into: Path) -> None:
    """Time all cases in this fresh process. nvbench's own output stays beside ``into``."""
    import torch

    runs = workloads()
    for run in runs.values():
        run()
    torch.cuda.synchronize()
    times = HARNESSES[harness](runs, nvbench_output(into))
    into.write_text(
        json.dumps({"times": times, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}), encoding="utf-8"
    )


# nvbench's output


def nvbench_output(into: Path) -> Path:
    return into.with_name(f"{into.stem}_nvbench.json")


def nvbench_times(root: dict[str, Any], statistic: str) -> Times:
    """``statistic`` ("mean", "median") of the isolated GPU times in nvbench's JSON, where numbers are strings, in seconds."""
    times = {}
    for benchmark in root["benchmarks"]:
        state = benchmark["states"][0]
        values = {summary["tag"]: summary["data"] for summary in state["summaries"] or []}
        tag = f"nv/cold/time/gpu/{statistic}"
        if tag not in values:
            raise Failed(f"nvbench reports no {tag} for {benchmark['name']} ({state.get('skip_reason') or 'not skipped'})")
        times[benchmark["name"]] = next(float(item["value"]) for item in values[tag] if item["name"] == "value") * 1e3
    return times


def as_slower_copy(root: dict[str, Any]) -> dict[str, Any]:
    """Keep the longer copy alone, under the name of the copy: the output of a head that copies more."""
    return {**root, "benchmarks": [{**one, "name": COPY} for one in root["benchmarks"] if one["name"] == LONGER_COPY]}


def verdicts(output: str) -> dict[str, str]:
    """Read benchmark → status from the Markdown tables that nvbench's comparison tools print."""
    statuses, name = {}, None
    for line in output.splitlines():
        if line.startswith("# "):
            name = line[2:].strip()
        elif name and line.startswith("|"):
            status = next((status for status in STATUSES if status in line), None)
            if status:
                statuses[name] = status
    return statuses


def compare(tool: str, reference: Path, head: Path) -> dict[str, str]:
    command = [sys.executable, "-m", COMPARE_TOOLS[tool], "--no-color", str(reference), str(head)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    statuses = verdicts(done.stdout)
    if not statuses:
        raise Failed(f"{tool}: {last_line(done.stderr or done.stdout)}")
    return statuses


def count_verdicts(outputs: list[Path]) -> tuple[dict[str, dict[str, Counter[str]]], list[str]]:
    """Count each status, tool → case, over ordered pairs of processes; also return the failures."""
    slower = []
    for output in outputs:
        slower.append(output.with_name(f"{output.stem}_slower.json"))
        slower[-1].write_text(json.dumps(as_slower_copy(json.loads(output.read_text(encoding="utf-8")))), encoding="utf-8")
    counts: dict[str, dict[str, Counter[str]]] = {}
    failures = []
    order = [(i, j) for i in range(len(outputs)) for j in range(len(outputs)) if i != j]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for tool in COMPARE_TOOLS:
            unchanged = [pool.submit(compare, tool, outputs[i], outputs[j]) for i, j in order]
            longer = [pool.submit(compare, tool, outputs[i], slower[j]) for i, j in order]
            try:
                of_unchanged = [future.result() for future in unchanged]
                of_longer = [future.result() for future in longer]
            except (Failed, OSError, subprocess.TimeoutExpired) as error:
                failures.append(str(error))
                for future in (*unchanged, *longer):
                    future.cancel()
                continue
            counts[tool] = {case: Counter(one.get(case, "absent") for one in of_unchanged) for case in UNCHANGED}
            counts[tool][LONGER_COPY] = Counter(one.get(COPY, "absent") for one in of_longer)
    return counts, failures


# Between processes


def spread(values: list[float]) -> tuple[float, float]:
    """Relative standard deviation, and largest over smallest minus 1."""
    return statistics.stdev(values) / statistics.fmean(values), max(values) / min(values) - 1


def share_past_gate(references: list[float], heads: list[float]) -> float:
    """Return the share of ordered pairs of different processes whose second time is more than 3 % above the first."""
    past = [heads[j] / reference - 1 > GATE for i, reference in enumerate(references) for j in range(len(heads)) if i != j]
    return sum(past) / len(past)


def summary(label: str, reported: list[Times]) -> list[dict[str, Any]]:
    """Sum up each case of one harness: its time, its spread, and how often a gate of 3 % is red for two single processes."""
    rows = []
    for case in UNCHANGED:
        values = [times[case] for times in reported]
        deviation, largest = spread(values)
        rows.append(
            {
                "harness": label,
                "case": case,
                "processes": len(values),
                "ms": statistics.median(values),
                "relative_stdev": deviation,
                "range": largest,
                "false_red": share_past_gate(values, values),
            }
        )
    plain, longer = ([times[case] for times in reported] for case in (COPY, LONGER_COPY))
    rows[-1]["planted_effect"] = statistics.median(longer) / statistics.median(plain) - 1
    rows[-1]["planted_caught"] = share_past_gate(plain, longer)
    return rows


def table(rows: list[dict[str, Any]], counted: dict[str, dict[str, Counter[str]]]) -> str:
    titles = ["harness", "case", "time", "spread", "range", "false red at 3 %", "longer copy", "caught at 3 %"]
    lines = [f"| {' | '.join(titles)} |", "|:--|:--|" + "--:|" * (len(titles) - 2)]
    for row in rows:
        cells = [f"{row['harness']}, {row['processes']} processes", row["case"], f"{row['ms'] * 1e3:.1f} µs"]
        cells += [f"{row['relative_stdev']:.2%}", f"{row['range']:.2%}", f"{row['false_red']:.1%}"]
        cells += [f"{row['planted_effect']:+.2%}", f"{row['planted_caught']:.0%}"] if "planted_effect" in row else ["", ""]
        lines.append(f"| {' | '.join(cells)} |".replace("%", " %"))
    for tool, cases in counted.items():
        for case, statuses in cases.items():
            counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
            lines.append(f"{tool}  {case}: {counts}")
    return "\n".join(lines)


# The run


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def measure_apart(harness: str, into: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", harness, "--out", str(into)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{harness}: not done after {error.timeout:g} s") from None
    if done.returncode or not into.exists():
        raise Failed(f"{harness}: exit code {done.returncode}: {last_line(done.stderr or done.stdout)}")
    return dict(json.loads(into.read_text(encoding="utf-8")))


def run(harnesses: list[str], processes: int, budget: float, folder: Path) -> dict[str, Any]:
    """Measures in rounds of one process for each harness, and starts no round that would outrun the budget."""
    started, longest = time.monotonic(), 0.0
    reported: dict[str, list[Times]] = {}
    outputs: list[Path] = []
    failures: list[str] = []
    machine: dict[str, str] = {}
    alive = list(harnesses)
    for number in range(processes):
        round_started = time.monotonic()
        if not alive:
            break
        if round_started - started + longest > budget:
            failures.append(f"stopped after {number} of {processes} processes for each harness")
            break
        for harness in list(alive):
            into = folder / f"{harness}_{number}.json"
            try:
                measured = measure_apart(harness, into)
            except Failed as error:
                failures.append(str(error))
                if number == 0:
                    alive.remove(harness)
                continue
            machine = {key: measured[key] for key in ("gpu", "torch")}
            for label, times in measured["times"].items():
                reported.setdefault(label, []).append(times)
            if harness == "nvbench":
                outputs.append(nvbench_output(into))
        longest = max(longest, time.monotonic() - round_started)
    measuring_s = time.monotonic() - started
    counted: dict[str, dict[str, Counter[str]]] = {}
    if len(outputs) > 1:
        counted, failed = count_verdicts(outputs)
        failures += failed
    rows = [row for label, times in reported.items() if len(times) > 1 for row in summary(label, times)]
    return {
        "machine": machine,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": {"measuring": measuring_s, "all": time.monotonic() - started},
        "times_ms": reported,
        "rows": rows,
        "verdicts": counted,
        "failures": failures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where to write all results, as JSON")
    parser.add_argument("--processes", type=int, default=8, help="fresh processes for each harness")
    parser.add_argument("--harness", nargs="+", choices=HARNESSES, default=list(HARNESSES), help="leave out the others")
    parser.add_argument("--budget", type=float, default=200, help="seconds for measuring; the comparisons take some 20 more")
    parser.add_argument("--keep", type=Path, help="a folder for nvbench's own JSON, which is deleted otherwise")
    parser.add_argument("--measure", choices=HARNESSES, help=argparse.SUPPRESS)  # this is one of the fresh processes
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.out)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = run(args.harness, args.processes, args.budget, folder)
    args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    for failure in results["failures"]:
        print(f"not measured: {failure}")
    print(f"{results['machine']}, {results['seconds']['all']:.0f} s")
    print(table(results["rows"], results["verdicts"]))
    return 0 if results["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
