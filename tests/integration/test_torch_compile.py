"""Benchmarks that compile with torch.compile, or choose kernels by timing them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.core.records.verdict import Outcome
from ratchet.tune.records import TuningRecord
from tests.integration.playground import Playground

COMPILED = """\
import time

import torch
from ratchet import Workload, benchmark


torch.backends.cudnn.benchmark = True


def scaled(x):
    time.sleep(0.002)
    return 3 * x


def static(graph, inputs):
    assert not any(isinstance(one, torch.SymInt) for one in inputs), f"compiled for any size: {inputs}"
    return graph.forward


@benchmark(configs={f"n_{n}": {"n": n} for n in (16, 32)}, devices=("cpu",))
def scale(*, device, n):
    x = torch.randn(n, device=device)
    run = torch.compile(scaled, backend=static)
    return Workload(run=lambda: run(x), reference=lambda: x.double() * 3)
"""


@pytest.mark.slow
def test_each_case_is_compiled_as_in_a_process_of_its_own(play: Playground) -> None:
    """torch.compile makes code for any size once it has seen two, and no case's code depends on the cases before it.

    That each process chooses kernels by timing them is said, with what would spare the time.
    """
    play.commit({"bench/scale.py": COMPILED})
    play.commit({"bench/scale.py": COMPILED.replace("0.002", "0.0021")})
    done = play.check("scale/*", "--pairs", "3")
    assert set(done.outcomes()) == {"scale/n_16", "scale/n_32"}, done
    assert Outcome.FAILED not in done.outcomes().values(), done
    assert any(text.startswith("Kernels are chosen by timing them") and "Triton 3.4" in text for text in done.run.warnings)


PREPARED = """
import os, sys, threading

import torch
from ratchet.core.bench.child import calls
from ratchet.core.processes import children
from ratchet.gpu_libraries import libraries

def refuse(name):
    def touched(*_):
        raise SystemExit(f"CUDA is touched: {name}")
    return touched

assert not calls.has_compiled()
torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1))  # which one of torch's counters leaves out
assert calls.has_compiled()
torch.cuda.is_available = lambda: True
for name in ("_lazy_init", "init", "current_device", "get_device_properties", "get_device_capability", "set_device"):
    setattr(torch.cuda, name, refuse(name))
libraries.load_compiler("cuda")
assert not children() and threading.active_count() == 1
before = set(sys.modules)
calls.forget_compiled(in_parallel=True)
assert not calls.has_compiled()
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_a_host_prepares_the_compiler_without_a_gpu_and_workers_have_nothing_to_import() -> None:
    """Where there is a GPU, a reset of the compiler wants 500 modules: the host has them, and no CUDA, process or thread."""
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done


COMPILES_UNSEEN = """\
import os, sys
from pathlib import Path
from ratchet import benchmark
import torch, torch._dynamo
import names_it

COMPILER = "torch._inductor.compile_fx"


@benchmark(configs={"only": {}}, devices=("cpu",))
def scale(*, device):
    x = torch.randn(16, device=device)

    def run():
        with (Path(os.environ["SEEN"]) / str(os.getpid())).open("a") as file:
            file.write("loaded " if COMPILER in sys.modules else "not ")
        __import__(COMPILER)  # as a library does in whose call something is compiled
        return 3 * x

    return run
"""


@pytest.mark.slow
def test_what_only_a_library_compiles_costs_the_first_worker_the_compiler_and_no_later_one(
    play: Playground, tmp_path: Path
) -> None:
    """No benchmark file names the compiler; each worker but the first finds it loaded, those of light pairs too.

    A module of the tree that names it in a function which no case calls costs nothing.
    """
    (tmp_path / "seen").mkdir()
    named = "def unused(function):\n    import torch\n\n    return torch.compile(function)\n"
    play.commit({"bench/scale.py": COMPILES_UNSEEN, "names_it.py": named})
    done = play.check("scale/*", "--base", "HEAD", "--time-identical", "--pairs", "3", env={"SEEN": str(tmp_path / "seen")})
    assert set(done.outcomes()) == {"scale/only"}, done
    first = [path.read_text().split()[0] for path in (tmp_path / "seen").iterdir()]
    workers = (*done.case("scale/only").head, *done.case("scale/only").reference)
    assert done.pairs("scale/only") == [0, 1, 2]
    assert (first.count("not"), first.count("loaded")) == (1, 1 + len(workers)), "the survey has two more"


TUNED = """\
import time

import torch
from ratchet import Workload, benchmark


def static(graph, inputs):
    assert not any(isinstance(one, torch.SymInt) for one in inputs), "compiled for any part"
    with open("COMPILED", "a") as file:
        file.write(".")
    return graph.forward


@benchmark(configs={"only": {}}, devices=("cpu",))
def scale(*, device):
    x = torch.randn(16, device=device)

    @torch.compile(backend=static)
    def scaled(x, part):
        return x * part / part

    def run(PART):
        time.sleep(1e-3)
        return scaled(x, PART)

    return Workload(run=run, reference=lambda: x.double(), tune={"PART": tuple(range(1, 13))}, tuning={"PART": 1})
"""


@pytest.mark.slow
def test_each_configuration_of_a_search_is_compiled_for_itself(play: Playground, tmp_path: Path) -> None:
    """torch.compile gives up after eight versions of a function, or makes code for any size; a search meets neither."""
    versions = tmp_path / "versions"
    play.commit({"bench/scale.py": TUNED.replace('"COMPILED"', repr(str(versions)))})
    done = play.ratchet("tune", "scale/only", "--device", "cpu", "--strategy", "exhaustive", "--time-budget", "60s")
    assert done.code == 0, done
    (path,) = play.repo.joinpath("tuning").glob("*.json")
    assert all(one.timed for one in load(path, TuningRecord).evaluations), done
    assert len(versions.read_text()) >= 12
