"""`ratchet check` on a real GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import PROOF, Playground, commit, new_repository

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

SCALE = """\
import torch
from ratchet import Workload, benchmark

TIMES = 20


@benchmark(configs={"event": {"clock": "event"}, "graph": {"clock": "graph"}})
def scale(*, device, clock):
    x = torch.randn(1 << 24, device=device)
    out = torch.empty_like(x)

    def run():
        for _ in range(TIMES):
            torch.mul(x, 3.0, out=out)
        return out

    return Workload(run=run, reference=lambda: x.double() * 3, dtype="float32", flops=1 << 24, bytes=1 << 27, clock=clock)

"""
BAD = """\
import torch
from ratchet import Workload, benchmark


@benchmark(configs={"illegal": {"kind": "illegal"}, "memory": {"kind": "memory"}})
def bad(*, device, kind):
    x = torch.randn(1024, device=device)

    def run():
        if kind == "memory":
            torch.empty(1 << 45, device=device)
        else:
            index = torch.full((1024,), 1 << 30, device=device)
            x[index]
            torch.cuda.synchronize()
        return x + 1

    return Workload(run=run, reference=lambda: x.double() + 1, dtype="float32", flops=1024, bytes=8192)
"""


def check(tmp_path: Path, *commits: dict[str, str]):
    new_repository(tmp_path / "repo", commits[0])
    for number, files in enumerate(commits[1:], 2):
        commit(tmp_path / "repo", f"commit {number}", files)
    play = Playground(tmp_path)
    return play.finish(play.start("check", "--device", "cuda", *PROOF, "--time-identical"), 300)


def test_unchanged_code_passes_on_the_gpu(tmp_path: Path) -> None:
    """Unchanged code exits 0 with both GPU clocks, and the record holds fingerprint, size of L2, telemetry and peak memory."""
    done = check(tmp_path, {"bench/scale.py": SCALE}, {"notes.txt": "no code\n"})
    assert done.code == 0, done
    assert set(done.outcomes().values()) == {Outcome.UNCHANGED}
    assert done.run.environment.fingerprint.gpu
    assert done.run.environment.l2_bytes
    assert 1 << 20 < done.run.environment.l2_bytes < 1 << 30
    case = done.case("scale/graph")
    assert case.workload is not None
    assert (case.workload.clock, case.workload.cache) == ("graph", "warm")
    assert case.telemetry is not None
    assert case.telemetry.readings > 0
    assert case.telemetry.foreign_processes == 0
    assert case.performance is not None
    assert case.performance.peak_memory_bytes >= 2 * 4 * (1 << 24)


def test_slower_code_fails_on_the_gpu(tmp_path: Path) -> None:
    """One launch more in twenty is a regression that is named, with either clock."""
    done = check(tmp_path, {"bench/scale.py": SCALE}, {"bench/scale.py": SCALE.replace("TIMES = 20", "TIMES = 21")})
    assert done.code == 1, done
    assert set(done.outcomes().values()) == {Outcome.REGRESSED}
    assert done.report.headline.startswith("2 of 2 cases slower; worst: scale/")


COMPILED = """\
import torch
from ratchet import Workload, benchmark

scaled = torch.compile(lambda x: torch.relu(x) * 3 + 1)


@benchmark(configs={"small": {"size": 1 << 22}, "large": {"size": 1 << 24}})
def compiled(*, device, size):
    x = torch.randn(size, device=device)
    return Workload(run=lambda: scaled(x), reference=lambda: x.double().relu() * 3 + 1, dtype="float32", clock="event")
"""


def test_compiled_code_passes_on_the_gpu(tmp_path: Path) -> None:
    """A host prepares torch.compile without the GPU, and each worker compiles its cases anew: unchanged code is unchanged."""
    done = check(tmp_path, {"bench/compiled.py": COMPILED}, {"notes.txt": "no code\n"})
    assert done.code == 0, done
    assert done.outcomes() == {"compiled/small": Outcome.UNCHANGED, "compiled/large": Outcome.UNCHANGED}


def test_a_broken_context_costs_its_case_only(tmp_path: Path) -> None:
    """An illegal access and a lack of memory are FAILED cases; the next case gets a fresh worker and its verdict."""
    done = check(tmp_path, {"bench/scale.py": SCALE}, {"bench/bad.py": BAD})
    assert done.code == 1, done
    assert done.outcomes() == {
        "bad/illegal": Outcome.FAILED,
        "bad/memory": Outcome.FAILED,
        "scale/event": Outcome.UNCHANGED,
        "scale/graph": Outcome.UNCHANGED,
    }
    assert "memory" in done.verdict("bad/memory").reason


BIG = SCALE.replace("1 << 24", "1 << 26").replace("1 << 27", "1 << 29").replace("TIMES = 20", "TIMES = 1")
IDLE = (
    BIG.replace("        for _ in range(TIMES):\n", "        if written != [out._version]:\n")
    .replace("        return out", "        written[:] = [out._version]\n        return out")
    .replace("out = torch.empty_like(x)", "out, written = torch.empty_like(x), []")
)
WAITING = SCALE.replace('"event": {"clock": "event"}, "graph": {"clock": "graph"}', '"event": {"clock": "event"}').replace(
    "        return out", "        out[0].item()\n        return out"
)


def test_a_head_that_does_nothing_is_impossible(tmp_path: Path) -> None:
    """A call that computes only where somebody wrote to its result is right and takes no time: FAILED, with the figure."""
    done = check(tmp_path, {"bench/scale.py": BIG}, {"bench/scale.py": IDLE})
    assert done.code == 1, done
    verdict = done.verdict("scale/event")
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.startswith("Measure: impossible: a call of ")
    assert "times as fast as this GPU can; the reference's time is possible" in verdict.reason


def test_a_case_that_waits_for_the_host_is_called_host_bound(tmp_path: Path) -> None:
    """A call that synchronises leaves the GPU waiting: host-bound on both sides, in the report too; the plain one is not."""
    done = check(
        tmp_path, {"bench/waiting.py": WAITING.replace("def scale", "def waiting"), "bench/scale.py": SCALE}, {"n.txt": "x"}
    )
    assert done.verdict("waiting/event").host_bound.startswith(
        "The GPU waited for the host in 100 % of the reference's and 100 % of "
    )
    assert "Its kernels take " in done.verdict("waiting/event").host_bound
    assert done.verdict("scale/event").host_bound == done.verdict("scale/graph").host_bound == ""
    assert "host-bound" in done.markdown


CORES = """\
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import torch
from ratchet import benchmark

DATA = bytes(1 << 24)


@benchmark(configs={{"one": {{"threads": 1}}, "many": {{"threads": 3}}}})
def waiting(*, device, threads):
    x = torch.randn(1 << 20, device=device)
    pool = ThreadPoolExecutor(threads)

    def run():
        list(pool.map(hashlib.sha256, [DATA] * threads))
        for name, cores in (("main", os.sched_getaffinity(0)), ("other", pool.submit(os.sched_getaffinity, 0).result())):
            with open({seen!r}, "a") as file:
                print(os.getpid(), threads, name, *sorted(cores), file=file)
        torch.cuda.synchronize()
        return x * 2

    return run
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 8, reason="needs eight cores")
def test_both_sides_of_a_case_that_waits_for_the_host_are_timed_on_the_same_two_cores(tmp_path: Path) -> None:
    """A pair has one core for both main threads and one for all others; where three threads work at a time, all have all."""
    seen = tmp_path / "seen"
    check(tmp_path, {"bench/waiting.py": CORES.format(seen=str(seen))}, {"n.txt": "x"})
    lines = [line.split() for line in seen.read_text(encoding="ascii").splitlines()]
    everything = [str(core) for core in sorted(os.sched_getaffinity(0))]
    assert {tuple(cores) for _, threads, _, *cores in lines if threads == "3"} == {tuple(everything)}
    kept = [(pid, name, *cores) for pid, threads, name, *cores in lines if threads == "1" and cores != everything]
    main, other = ({pid: cores for pid, thread, *cores in kept if thread == name} for name in ("main", "other"))
    assert len(main) >= 12
    assert main.keys() == other.keys()
    pairs = [(*main[pid], *other[pid]) for pid in main]
    assert all(len(set(pair)) == 2 for pair in pairs)
    assert all(pairs.count(pair) % 2 == 0 for pair in pairs)


ASKS = """\
import torch
import triton
from ratchet import benchmark

CAPABILITY = torch.cuda.get_device_capability()
MULTIPROCESSORS = torch.cuda.get_device_properties("cuda").multi_processor_count
TARGET = triton.runtime.driver.active.get_current_target()
SHARED = triton.runtime.driver.active.utils.get_device_properties(torch.cuda.current_device())["max_shared_mem"]
BF16 = torch.cuda.is_bf16_supported()


@benchmark
def asks(device):
    assert torch.cuda.get_device_capability() == CAPABILITY
    assert torch.cuda.get_device_properties(0).multi_processor_count == MULTIPROCESSORS
    assert triton.runtime.driver.active.get_current_target() == TARGET
    assert triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"] == SHARED
    assert BF16
    x = torch.randn(1 << 24, device=device)
    return lambda: x * 2
"""


def test_benchmarks_may_ask_about_the_gpu_while_they_are_imported(tmp_path: Path) -> None:
    """Capability, properties and Triton's target are answered as in a worker, and workers are forked after that."""
    pytest.importorskip("triton")
    new_repository(tmp_path / "repo", {"bench/asks.py": ASKS, "pyproject.toml": "[tool.ratchet]\n"})
    commit(tmp_path / "repo", "notes", {"notes.txt": "no code\n"})
    play = Playground(tmp_path)
    done = play.finish(play.start("check", "--device", "cuda"), 300)
    assert done.code == 0, done
    assert done.outcomes() == {"asks/default": Outcome.IDENTICAL}


@pytest.mark.parametrize("how", ["torch.zeros(1, device='cuda')", "cupy.cuda.Device(0).compute_capability"])
def test_work_on_the_gpu_while_benchmarks_are_imported_is_refused(how: str, tmp_path: Path) -> None:
    """The sentence names the line, as far as torch was asked; another library's use of CUDA is noticed too."""
    module = how.partition(".")[0]
    pytest.importorskip(module)
    new_repository(tmp_path / "repo", {"bench/works.py": f"import {module}\nfrom ratchet import benchmark\nX = {how}\n"})
    commit(tmp_path / "repo", "notes", {"notes.txt": "no code\n"})
    play = Playground(tmp_path)
    done = play.finish(play.start("check", "--device", "cuda"), 300)
    assert done.code == 3, done
    assert "uses CUDA while it is imported" in done.sentence
    assert module != "torch" or "(bench/works.py:3)" in done.sentence
