"""Record the planted causes on a GPU: check and time both variants, then profile one call of each.

    python bench/planted/record.py --out FOLDER [--only CAUSE…] [--budget SECONDS]

Writes ``times.json`` (seconds, medians), ``<cause>_<variant>.ncu-rep``, and for the causes that only a trace sees
``<cause>_<variant>.trace.json``. What the budget leaves no time for is printed; a report that exists is not made again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import torch

from ratchet.core.bench.child.calls import TimedCall
from ratchet.core.bench.child.correctness import check

HERE = Path(__file__).resolve().parent


def _planted() -> ModuleType:
    """planted.py beside this file, whatever else has its name: `ratchet doctor cases` gives its folder that name too."""
    spec = importlib.util.spec_from_file_location("planted_causes", HERE / "planted.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{HERE / 'planted.py'} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


causes = _planted()
Variant = Literal["good", "bad"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
TRACED = ("launch_storm", "extra_kernel", *causes.COPIES)
CALLS = 51
CHILD_TIMEOUT_S = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Parent and child in one file, so that both build the same workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("planted_reports"))
    parser.add_argument("--only", nargs="+", choices=causes.CAUSES, default=list(causes.CAUSES))
    parser.add_argument("--budget", type=float, default=600.0, help="seconds for everything")
    parser.add_argument(
        "--child", nargs=2, metavar=("CAUSE", "VARIANT"), help="what ncu runs: warm up, then one call in the range"
    )
    options = parser.parse_args(arguments)
    if options.child:
        one_call(*options.child)
        return 0
    end = time.monotonic() + options.budget
    options.out.mkdir(parents=True, exist_ok=True)
    compile_all([cause for cause in options.only if cause in causes.CUDA])
    wrong = time_all(options.only, options.out / "times.json")
    trace_all([cause for cause in options.only if cause in TRACED], options.out)
    left = profile_all([cause for cause in options.only if cause not in causes.COPIES], options.out, end)
    print("left out for want of time:", ", ".join(left) or "nothing")
    return 1 if wrong or left else 0


def one_call(cause: str, variant: Variant) -> None:
    """Warm up, then one call between cudaProfilerStart and cudaProfilerStop."""
    run = causes.build(cause, variant).run
    settle(run)
    torch.cuda.profiler.start()
    run()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def settle(run: Callable[[], Any], calls: int = 5) -> None:
    for _ in range(calls):
        run()
    torch.cuda.synchronize()


def compile_all(names: Sequence[str]) -> None:
    """All at once: nvcc takes seconds and one core each."""
    torch.cuda.init()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda pair: causes.compiled(*pair), [(cause, variant) for cause in names for variant in VARIANTS]))


def time_all(names: Sequence[str], path: Path) -> list[str]:
    """Median seconds of a call on both sides, taken in turns. Returns the causes whose results are wrong."""
    times: dict[str, dict[str, float]] = {}
    wrong = []
    for cause in names:
        try:
            sides = {variant: causes.build(cause, variant) for variant in VARIANTS}
            errors = [check(TimedCall(workload)).error for workload in sides.values()]
        except Exception as error:  # noqa: BLE001 - a variant that does not run must not cost the others their recording
            print(f"{cause}: {type(error).__name__}: {error}", flush=True)
            wrong.append(cause)
            continue
        samples: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for workload in sides.values():
            settle(workload.run)
        for _ in range(CALLS):
            for variant, workload in sides.items():
                samples[variant].append(seconds(workload.run))
        times[cause] = {variant: statistics.median(each) for variant, each in samples.items()}
        good, bad = (times[cause][variant] * 1e6 for variant in VARIANTS)
        print(f"{cause:16} good {good:8.1f} us  bad {bad:8.1f} us  x{bad / good:.2f}  errors {errors}", flush=True)
    path.write_text(json.dumps({"gpu": device(), "times_s": times}, indent=1) + "\n")
    return wrong


def seconds(run: Callable[[], Any]) -> float:
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3


def trace_all(names: Sequence[str], out: Path) -> None:
    for cause in names:
        for variant in VARIANTS:
            run = causes.build(cause, variant).run
            settle(run)
            with torch.profiler.profile() as trace:
                settle(run)
            trace.export_chrome_trace(str(out / f"{cause}_{variant}.trace.json"))


def profile_all(names: Sequence[str], out: Path, end: float) -> list[str]:
    """One ncu for each variant, one at a time. Returns what there was no time for, or that gave no report."""
    left = []
    longest = 15.0
    for cause in names:
        for variant in VARIANTS:
            report = out / f"{cause}_{variant}.ncu-rep"
            if report.exists():
                continue
            if time.monotonic() + longest > end:
                left.append(report.stem)
                continue
            begun = time.monotonic()
            profile(cause, variant, report)
            longest = max(longest, time.monotonic() - begun)
            if not report.exists():
                left.append(report.stem)
    return left


def profile(cause: str, variant: Variant, report: Path) -> None:
    command = ["ncu", "--set", "full", "--clock-control", "none", "--profile-from-start", "off", "--force-overwrite"]
    command += ["--export", str(report), sys.executable, str(HERE / "record.py"), "--child", cause, variant]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"{report.stem}: ncu took longer than {CHILD_TIMEOUT_S} s", flush=True)
        return
    size = report.stat().st_size if report.exists() else 0
    print(f"{report.stem:24} rc {done.returncode}  {time.monotonic() - begun:5.1f} s  {size / 1024:.0f} KiB", flush=True)
    if not size:
        print(done.stdout[-2000:], done.stderr[-2000:], flush=True)


def device() -> dict[str, str]:
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True, text=True
    )
    name, driver = asked.stdout.splitlines()[0].split(", ")
    version = subprocess.run(["ncu", "--version"], check=False, capture_output=True, text=True).stdout.splitlines()
    return {"name": name, "driver": driver, "torch": torch.__version__, "ncu": version[-1] if version else "?"}


if __name__ == "__main__":
    sys.exit(main())
