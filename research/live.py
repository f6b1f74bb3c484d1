"""Live checks of code that is unchanged or slowed on purpose: ``python research/live.py --device cuda`` prints a table.

Makes a git repository with four benchmarks, one of which takes longer in the second commit, and runs `ratchet check` in it:
undisturbed, while others keep the GPU or each core of the CPU busy for half of the time, and with a SIGKILL for one of its
processes at a random moment. No unchanged case may be red, no slowdown may pass, no process or folder may stay behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BENCH = """
import torch
from ratchet import Workload, benchmark

EXTRA = {extra}


def stream(device, n, extra):
    # n elements are declared: a head with more of them does work that nobody declared.
    x = torch.randn(int(n * extra) // 16 * 16, device=device)
    out = torch.empty_like(x)
    run = lambda: torch.mul(x, 3.0, out=out)
    return Workload(run=run, reference=lambda: x.double() * 3.0, dtype="float32", flops=n, bytes=8 * n)


@benchmark(configs={{"default": {{"n": {n}}}}}, devices=("cuda", "cpu"))
def planted(*, device: torch.device, n: int) -> Workload:
    return stream(device, n, EXTRA)


@benchmark(configs={{"default": {{"n": {n}}}}}, devices=("cuda", "cpu"))
def plain(*, device: torch.device, n: int) -> Workload:
    return stream(device, n, 1.0)


@benchmark(configs={{"default": {{"n": {side}}}}}, devices=("cuda", "cpu"))
def product(*, device: torch.device, n: int) -> Workload:
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    out = torch.empty_like(a)
    run = lambda: torch.matmul(a, b, out=out)
    return Workload(run=run, reference=lambda: a.double() @ b.double(), dtype="float32", flops=2 * n**3, bytes=12 * n * n)


@benchmark(configs={{"default": {{"n": {n}}}}}, devices=("cuda", "cpu"))
def total(*, device: torch.device, n: int) -> Workload:
    x = torch.rand(n, device=device)
    return Workload(run=lambda: x.sum(), reference=lambda: x.double().sum(), dtype="float32", flops=n, bytes=4 * n)
"""
SIZES = {"cuda": {"n": 1 << 26, "side": 4096}, "cpu": {"n": 1 << 20, "side": 384}}
GPU_LOAD = """
import time, torch
a = torch.randn(4096, 4096, device="cuda")
while True:
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        a @ a
        torch.cuda.synchronize()
    time.sleep(1.0)
"""
CPU_LOAD = """
import os, random, sys, time
core, seed = map(int, sys.argv[1:])
os.sched_setaffinity(0, {core})
drawn = random.Random(seed * 1000 + core)
while True:
    end = time.monotonic() + drawn.uniform(0.05, 4.0)
    while time.monotonic() < end:
        sum(range(2000))
    time.sleep(drawn.uniform(0.05, 4.0))
"""
GIT = ("git", "-c", "user.name=live", "-c", "user.email=live@example.org", "-c", "init.defaultBranch=main")


@dataclass(frozen=True)
class EndedCheck:
    """One check."""

    code: int
    red: tuple[str, ...]
    """Red cases."""
    planted: str
    """Outcome of the slowed case."""
    change: float | None
    seconds: float
    left: tuple[str, ...]
    """Processes and folders that stayed behind."""


def repository(folder: Path, device: str, extra: float) -> Path:
    """A repository whose first commit is plain, and whose second one has ``extra`` times the work in one benchmark."""
    (folder / "bench").mkdir(parents=True)
    subprocess.run([*GIT, "init", "-q", str(folder)], check=True)
    for number, factor in enumerate((1.0, extra)):
        text = BENCH.format(extra=factor, **SIZES[device]) + f"\n# commit {number}\n"
        (folder / "bench" / "live.py").write_text(text)
        subprocess.run([*GIT, "-C", str(folder), "add", "."], check=True)
        subprocess.run([*GIT, "-C", str(folder), "commit", "-qm", f"live {number}"], check=True)
    return folder


def check(folder: Path, device: str, *, kill: bool, rng: random.Random) -> EndedCheck:
    command = [
        sys.executable,
        "-m",
        "ratchet",
        "check",
        "--device",
        device,
        "--no-profile",
        "--time-identical",
        "--repo",
        str(folder),
    ]
    scratch = folder.parent / "scratch"  # its own, so that the folders of another ratchet are not taken for this one's
    scratch.mkdir()
    started = time.monotonic()
    with (folder.parent / "log").open("w") as log:
        environ = {**os.environ, "TMPDIR": str(scratch)}
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environ)
        seen: set[int] = set()
        if kill:
            threading.Thread(target=_kill_one, args=(process.pid, rng.uniform(4, 25), rng), daemon=True).start()
        while process.poll() is None:
            seen.update(_descendants(process.pid))
            time.sleep(0.05)
    seconds = time.monotonic() - started
    time.sleep(0.5)
    alive = [f"process {pid}" for pid in sorted(seen) if Path("/proc", str(pid)).exists() and not _is_zombie(pid)]
    folders = [path.name for path in scratch.glob("ratchet-*")]
    cases = []
    with contextlib.suppress(OSError, ValueError):
        cases = json.loads((folder / "results" / "report.json").read_text())["cases"]
    (folder / "results" / "report.json").unlink(missing_ok=True)
    planted = next((case for case in cases if case["name"] == "planted/default"), None)
    red = tuple(case["name"] for case in cases if case["outcome"] in ("REGRESSED", "FAILED"))
    comparison = (planted or {}).get("comparison")
    return EndedCheck(
        process.returncode,
        red,
        planted["outcome"] if planted else "no report",
        comparison["ratio"] if comparison else None,
        seconds,
        (*alive, *folders),
    )


def _kill_one(root: int, after: float, rng: random.Random) -> None:
    time.sleep(after)
    below = sorted(_descendants(root))
    if below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(below), signal.SIGKILL)


def _descendants(root: int) -> set[int]:
    found, waiting = set(), [root]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                found.update(children)
                waiting += children
    return found


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@contextlib.contextmanager
def load(device: str, seed: int) -> Iterator[None]:
    """Keep the GPU, or each core of the CPU, busy for about half of the time while the body runs."""
    cores = os.sched_getaffinity(0) if device == "cpu" else ()
    scripts = [[CPU_LOAD, str(core), str(seed)] for core in cores] or [[GPU_LOAD]]
    processes = [subprocess.Popen([sys.executable, "-c", *script]) for script in scripts]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    parser.add_argument("--checks", type=int, default=3, help="checks of each kind")
    parser.add_argument("--kinds", nargs="*", default=["unchanged", "+5 %", "+50 %"])
    parser.add_argument("--conditions", nargs="*", default=["idle", "loaded", "killed"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    factors = {"unchanged": 1.0, "+5 %": 1.05, "+50 %": 1.5}
    wrong = 0
    print("| code | condition | exit code | slowed case | change | red | seconds | left behind |")
    print("|:--|:--|--:|:--|--:|:--|--:|:--|", flush=True)
    for kind in options.kinds:
        for condition in options.conditions:
            for _ in range(options.checks):
                loaded = load(options.device, rng.randrange(1000)) if condition == "loaded" else contextlib.nullcontext()
                with tempfile.TemporaryDirectory() as parent, loaded:
                    folder = repository(Path(parent, "repository"), options.device, factors[kind])
                    ended = check(folder, options.device, kill=condition == "killed", rng=rng)
                    lost = "" if ended.code in (0, 1, 3) else Path(parent, "log").read_text()[-400:]
                change = f"{100 * (ended.change - 1):+.1f} %" if ended.change else "–"
                false_red = set(ended.red) - ({"planted/default"} if kind != "unchanged" else set())
                silent = kind != "unchanged" and ended.code == 0
                wrong += bool(false_red or silent or ended.left or lost)
                cells = (kind, condition, ended.code, ended.planted, change, " ".join(ended.red) or "–", f"{ended.seconds:.0f}")
                print("| " + " | ".join(map(str, cells)) + f" | {' '.join(ended.left) or '–'} |{lost}", flush=True)
    print(f"\n{wrong} of these checks were falsely red, passed a slowdown, ended in another way, or left something behind.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
