"""Identities on a real GPU: equal for equal work in two processes and trees, different for all that could change a time."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ratchet import nvcc
from ratchet.core.bench.client import Hosts, WorkerClient
from ratchet.core.bench.messages import BuiltCase, Identified, Sampled
from ratchet.core.bench.tree_spec import ProcessShare, TreeSpec
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import CudaBuildError
from ratchet.core.records.run import Side
from ratchet.core.records.verdict import Outcome
from tests.integration.playground import Playground, new_repository

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

ROOT = Path(__file__).parents[2]
TELL = """\
import json
import os
import pathlib

from ratchet.identical.launches import launches

plain = launches.digest


def digest(told):
    if isinstance(told, dict):
        folder = pathlib.Path(__file__).parent / "told"
        folder.mkdir(exist_ok=True)
        (folder / f"{os.getpid()}.json").write_text(json.dumps(told))
    return plain(told)


launches.digest = digest
"""
"""A file of the bench folder that keeps what a digest is made of, for the message of a test that fails."""
TRITON = """\
import torch
import triton.language as tl
from ratchet import Workload, benchmark
from triton import cdiv, jit


@jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor * 2.0, mask=at < n)


@benchmark(configs={"x": {"n": 1 << 20}}, requires=("triton",))
def NAME(*, device, n):
    x = torch.randn(n, device=device)
    out = torch.empty_like(x)

    def run():
        scale[(cdiv(n, 512),)](x, out, n, 3.0, BLOCK=512)
        return out

    return Workload(run=run, reference=lambda: x.double() * 6, dtype="float32", flops=n, bytes=8 * n)
"""
CUDA = """\
import ctypes
import pathlib

import torch
from ratchet import Workload, benchmark, nvcc

SOURCE = pathlib.Path(__file__).parent / "kernels" / "NAME" / "scale.cu"
MACROS = {"BLOCK": 256}
FLAGS = nvcc.FLAGS


@benchmark(configs={"x": {"n": 1 << 20}}, requires=("nvcc",))
def NAME(*, device, n):
    x = torch.randn(n, device=device)
    out, other = torch.empty_like(x), torch.zeros_like(x)
    library = nvcc.load(SOURCE, macros=MACROS, flags=FLAGS)
    library.launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_float, ctypes.c_void_p]

    def run():
        if code := library.launch(x.data_ptr(), out.data_ptr(), n, 3.0, torch.cuda.current_stream().cuda_stream):
            raise RuntimeError(f"not launched: error {code}")
        return out

    return Workload(run=run, reference=lambda: x.double() * 6, dtype="float32", flops=n, bytes=8 * n)
"""
SOURCE = """\
#include <cuda_runtime.h>

__constant__ float table[2] = {2.0f, 2.0f};

namespace {
__global__ void scale(const float* x, float* out, int n, float factor) {
    const int at = blockIdx.x * BLOCK + threadIdx.x;
    if (at < n) out[at] = x[at] * factor * table[at % 2];
}
}

extern "C" int set(float value) { return cudaMemcpyToSymbol(table, &value, sizeof value); }

extern "C" int launch(const float* x, float* out, int n, float factor, cudaStream_t stream) {
    scale<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, stream>>>(x, out, n, factor);
    return cudaGetLastError();
}
"""
OWN_STREAM = "static cudaStream_t own = [] { cudaStream_t made; cudaStreamCreate(&made); return made; }();\n    scale<<<"
PLAIN = """\
import time

import torch
from ratchet import Workload, benchmark


@benchmark(configs={"x": {"n": 512}})
def NAME(*, device, n):
    a = torch.randn(n, n, device=device)
    side = torch.cuda.Stream()
    out = torch.empty_like(a)
    pinned = torch.ones((), pin_memory=True)

    def run():
        RUN

    return Workload(run=run, reference=lambda: a.double() @ a.double(), dtype="float32", flops=2 * n**3, bytes=12 * n * n)
"""

Change = tuple[str, str]
TRITON_CASES: dict[str, list[Change]] = {
    "triton": [],
    "triton_comment": [("@jit", "# A comment.\n\n\n@jit")],
    "triton_constant": [("* 2.0", "* 4.0"), ("* 6,", "* 12,")],
    "triton_scalar": [("3.0,", "5.0,"), ("* 6,", "* 10,")],
    "triton_grid": [("(cdiv(n, 512),)", "(cdiv(n, 512) + 1,)")],
    "triton_tile": [("512", "256")],
    "triton_warps": [("BLOCK=512", "BLOCK=512, num_warps=8")],
    "triton_twice": [("        scale[", "        scale[(1,)](x, out, n, 3.0, BLOCK=512)\n        scale[")],
    "triton_data": [("torch.randn(n, device=device)", "torch.randn(n, device=device) + 1")],
    "triton_offset": [("torch.randn(n, device=device)", "torch.randn(n + 4, device=device)[4:]")],
    "triton_default": [("def run():", "def run(factor=5.0):"), ("n, 3.0,", "n, factor,"), ("* 6,", "* 10,")],
    "triton_closure": [("    def run", "    factor = 5.0\n\n    def run"), ("n, 3.0,", "n, factor,"), ("* 6,", "* 10,")],
    "triton_global": [("@jit", "FACTOR = 5.0\n\n\n@jit"), ("n, 3.0,", "n, FACTOR,"), ("* 6,", "* 10,")],
    "triton_constexpr": [("@jit", "TWO = tl.constexpr(4.0)\n\n\n@jit"), ("* 2.0", "* TWO"), ("* 6,", "* 12,")],
    "triton_helper": [
        ("@jit", "@jit\ndef thrice(v):\n    return v + v + v\n\n\n@jit"),
        ("tl.load(x + at, mask=at < n) * factor * 2.0", "thrice(tl.load(x + at, mask=at < n)) * factor"),
        ("* 6,", "* 9,"),
    ],
    "triton_config": [("@jit", 'CONFIG = {"BLOCK": 256}\n\n\n@jit'), ("BLOCK=512", "**CONFIG"), ("cdiv(n, 512)", "cdiv(n, 256)")],
    "triton_environment": [
        ("import torch\n", "import os\n\nimport torch\n"),
        ("512", 'int(os.environ.get("NOBODY_SETS_THIS", "256"))'),
    ],
    "triton_file": [
        ("import torch\n", "import pathlib\n\nimport torch\n"),
        ("@jit", 'SIZE = len((pathlib.Path(__file__).parent / "size.txt").read_text())\n\n\n@jit'),
        ("512", "SIZE"),
    ],
    "triton_decorator": [
        ("@jit", "def again(function):\n    return lambda: (function(), function())[1]\n\n\n@jit"),
        ("    def run", "    @again\n    def run"),
    ],
    "triton_patched": [("@jit", "plain = cdiv\ncdiv = lambda a, b: plain(a, b) + 3\n\n\n@jit")],
}
CUDA_CASES: dict[str, tuple[list[Change], list[Change]]] = {
    "cuda": ([], []),
    "cuda_comment": ([], [("namespace {", "// A comment.\n\nnamespace {")]),
    "cuda_host": ([("nvcc.FLAGS", '("-O1", *nvcc.FLAGS[1:])')], []),
    "cuda_constant": ([("* 6,", "* 12,")], [("x[at] * factor", "2.0f * x[at] * factor")]),
    "cuda_macro": ([("256", "128")], []),
    "cuda_ptxas": ([("nvcc.FLAGS", '(*nvcc.FLAGS, "-Xptxas", "-O1")')], []),
    "cuda_variable": (
        [
            ("    library.launch.argtypes", "    library.set(ctypes.c_float(2.5))\n    library.launch.argtypes"),
            ("    def run", "    two = torch.tensor([1.25, 1.0], device=device).repeat(n // 2).double()\n\n    def run"),
            ("* 6,", "* 6 * two,"),
        ],
        [],
    ),
    "cuda_default_stream": ([("torch.cuda.current_stream().cuda_stream", "0")], []),
    "cuda_own_stream": (
        [("        if code", "        torch.add(x, 1.0, out=other)\n        if code")],
        [("    scale<<<", "    " + OWN_STREAM), ("0, stream>>>", "0, own>>>")],
    ),
}
AUTOGRAD = [
    "b = a.detach().clone().requires_grad_()",
    "y = b.exp().log() @ a",
    "(grad,) = torch.autograd.grad(y, b, torch.ones_like(y))",
    "return y.detach() + 0.0 * grad",
]
PLAIN_CASES = {
    "matmul_new": ["return a @ a"],
    "elementwise": ["torch.mm(a, a, out=out)", "out.add_(0.0)", "return out"],
    "joined": [
        "side.wait_stream(torch.cuda.current_stream())",
        "with torch.cuda.stream(side):",
        "    torch.mm(a, a, out=out)",
        "torch.cuda.current_stream().wait_stream(side)",
        "return out",
    ],
    "allocates": ["return ((a * 1.0)[:, :256] @ (a * 1.0 + 0.0)[:256]) + (a[:, 256:] * 1.0) @ (a[256:] + 0.0)"],
    "autograd": AUTOGRAD,
    "autograd_more": [*AUTOGRAD[:-1], "return y.detach() + 0.0 * grad.tanh()"],
    "synchronises": ["torch.mm(a, a, out=out)", "torch.cuda.synchronize()", "return out"],
    "from_host": ["torch.mm(a, a, out=out)", "return out.mul_(pinned.to(device, non_blocking=True))"],
    "slow_host": ["time.sleep(0.03)", "return torch.mm(a, a, out=out)"],
}
SAME = ["attention/training_512", "normalize/rows_1k", "normalize/rows_16k", "matmul/square_2048", "copy/mib_256"]
SAME += ["triton/x", "cuda/x", "matmul_new/x", "elementwise/x", "joined/x", "allocates/x", "autograd/x"]
EQUAL = [("triton_comment", "triton"), ("cuda_comment", "cuda"), ("cuda_host", "cuda")]
DIFFERENT = [(name, "triton") for name in TRITON_CASES if name not in ("triton", "triton_comment")]
DIFFERENT += [(name, "cuda") for name in ("cuda_constant", "cuda_macro", "cuda_ptxas", "cuda_variable")]
DIFFERENT += [("autograd_more", "autograd")]
ON_ONE_STREAM = {"triton/x": True, "cuda/x": True, "normalize/rows_1k": True, "joined/x": False}
OPAQUE = {
    "cuda_default_stream": "a CUDA graph cannot hold its launches",
    "cuda_own_stream": "a stream of its own",
    "synchronises": "a CUDA graph cannot hold its launches",
    "from_host": "the host",
}


def changed(text: str, changes: list[Change], name: str) -> str:
    for old, new in changes:
        assert old in text, (name, old)
        text = text.replace(old, new)
    return text.replace("NAME", name)


def write_tree(tree: Path) -> None:
    """This repository's own benchmarks, and those above beside them."""
    shutil.copytree(ROOT / "bench", tree / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    files = {"tell": TELL}
    files |= {name: changed(TRITON, changes, name) for name, changes in TRITON_CASES.items()}
    files |= {name: changed(CUDA, changes[0], name) for name, changes in CUDA_CASES.items()}
    files |= {name: changed(PLAIN, [("RUN", "\n        ".join(run))], name) for name, run in PLAIN_CASES.items()}
    for name, text in files.items():
        (tree / "bench" / f"{name}.py").write_text(text)
    (tree / "bench" / "size.txt").write_text("." * 256)
    for name, (_, changes) in CUDA_CASES.items():
        source = tree / "bench" / "kernels" / name / "scale.cu"  # one name, since nvcc puts it into those of kernels
        source.parent.mkdir()
        source.write_text(changed(SOURCE, changes, name))


def compile_ahead(tree: Path) -> None:
    """All at once, as the workers would one by one; what does not compile is theirs to report."""

    def build(name: str) -> None:
        macros = {"BLOCK": 128 if name == "cuda_macro" else 256}
        flags = {"cuda_host": ("-O1", *nvcc.FLAGS[1:]), "cuda_ptxas": (*nvcc.FLAGS, "-Xptxas", "-O1")}.get(name, nvcc.FLAGS)
        nvcc.build(tree / "bench" / "kernels" / name / "scale.cu", macros=macros, flags=flags)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(build, name) for name in CUDA_CASES]:
            done.exception()


class Sides:
    """A host for each of two trees; asks each case of a side once, in a worker of its own."""

    def __init__(self, folder: Path) -> None:
        gpu = vendor_here().choose_gpu(None, os.environ)
        assert gpu is not None
        cache = {"RATCHET_CACHE_DIR": str(folder / "nvcc"), "TRITON_CACHE_DIR": str(folder / "triton")}
        environ = Playground(folder).environ(cache)
        self.trees: dict[Side, Path] = {"reference": folder / "trees" / "reference", "head": folder / "trees" / "deeper" / "head"}
        for tree in self.trees.values():
            write_tree(tree)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RATCHET_CACHE_DIR", cache["RATCHET_CACHE_DIR"])
            compile_ahead(self.trees["head"])
        specs = {
            side: TreeSpec(tree, folder / "checkout", "bench", (".",), "cuda", ProcessShare(1, gpu.uuid, 120, 120))
            for side, tree in self.trees.items()
        }
        self.hosts = Hosts(specs, environ)
        for host in self.hosts.sides.values():
            broken = host.listing().broken
            assert not broken, broken
        self._known: dict[tuple[Side, str], tuple[Identified, Any]] = {}

    def close(self) -> None:
        self.hosts.__exit__()

    def prepare(self, worker: WorkerClient, case: str, *, check: bool = True) -> BuiltCase:
        settings = {"seed": 7, "clock": "auto", "cache": "cold", "placements": 2}
        return worker.ask("prepare", BuiltCase, case=case, check=check, **settings)

    def identified(self, side: Side, case: str) -> tuple[Identified, Any]:
        """The identity, and what its digest was made of."""
        needs_nvcc(case)
        if (side, case) not in self._known:
            worker = self.hosts.sides[side].fork()
            try:
                self.prepare(worker, case, check=side == "head")  # as a survey does, and it must not matter
                found = worker.ask("identify", Identified)
            finally:
                worker.end()
            told = self.trees[side] / "bench" / "told" / f"{worker.pid}.json"
            self._known[side, case] = found, json.loads(told.read_text()) if told.exists() else None
        return self._known[side, case]


def needs_nvcc(case: str) -> None:
    if case.startswith(("cuda", "normalize")):
        try:
            nvcc.find_nvcc()
        except CudaBuildError as error:
            pytest.skip(error.message)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    pytest.importorskip("triton")
    made = Sides(tmp_path_factory.mktemp("identity"))
    yield made
    made.close()


def assert_equal(one: tuple[Identified, Any], other: tuple[Identified, Any]) -> None:
    assert (one[0].opaque, other[0].opaque) == ("", "")
    assert one[1] == other[1]
    assert one[0].digest == other[0].digest
    assert one[0].launches == other[0].launches
    assert one[0].launches
    assert not one[0].spent


@pytest.mark.parametrize("case", SAME)
def test_the_same_in_two_trees(sides: Sides, case: str) -> None:
    """Unchanged work has one digest in two processes, trees and places of memory: Triton, CUDA C++, torch, autograd."""
    assert_equal(sides.identified("reference", case), sides.identified("head", case))


@pytest.mark.parametrize(("name", "base"), EQUAL)
def test_what_makes_no_difference(sides: Sides, name: str, base: str) -> None:
    """A comment, which moves every line, and an optimisation of the host's code leave the digest as it is."""
    assert_equal(sides.identified("head", f"{name}/x"), sides.identified("reference", f"{base}/x"))


@pytest.mark.parametrize(("name", "base"), DIFFERENT)
def test_what_makes_a_difference(sides: Sides, name: str, base: str) -> None:
    """Another constant, argument, grid, tile, launch, datum, macro, ptxas flag or variable is another digest."""
    found, reference = sides.identified("head", f"{name}/x")[0], sides.identified("reference", f"{base}/x")[0]
    assert (found.opaque, reference.opaque) == ("", "")
    assert found.digest != reference.digest


@pytest.mark.parametrize(("name", "reason"), OPAQUE.items())
def test_what_cannot_be_seen(sides: Sides, name: str, reason: str) -> None:
    """A stream of one's own, the default stream by name, a wait for the GPU, or data of the host is opaque."""
    found = sides.identified("head", f"{name}/x")[0]
    assert reason in found.opaque
    assert found.digest == ""


def test_launches_of_a_slow_host_are_not_all_that_counts(sides: Sides) -> None:
    """Where the GPU waits for the host there is a digest of the launches too, and a word that they are not all."""
    found = sides.identified("head", "slow_host/x")[0]
    assert (found.waits_for_host, found.opaque, len(found.digest)) == (True, "", 64)


def test_launches_are_shown(sides: Sides) -> None:
    """People can read what was launched: names, grids and blocks."""
    assert sides.identified("head", "triton/x")[0].launches == ("scale grid (2048, 1, 1) block (128, 1, 1)",)
    assert [line.split()[0] for line in sides.identified("head", "copy/mib_256")[0].launches] == ["memcpy"]


@pytest.mark.parametrize("case", ["triton/x", "cuda/x"])
def test_what_kernels_take_is_told(sides: Sides, case: str) -> None:
    """Registers, machine code and launches of the author's kernels are known wherever their identity is; none spills here."""
    needs_nvcc(case)
    taken = sides.identified("head", case)[0].resources
    assert taken
    assert (taken.spills, taken.registers > 0, taken.code_size > 0, taken.launches > 0) == (0, True, True, True)


def test_a_worker_goes_on(sides: Sides) -> None:
    """After an identity the worker prepares and times cases as before, and knows them again."""
    worker = sides.hosts.sides["head"].fork()
    try:
        for _ in range(2):
            sides.prepare(worker, "triton/x")
            assert worker.ask("identify", Identified).digest == sides.identified("head", "triton/x")[0].digest
        sides.prepare(worker, "matmul/square_2048")
        assert len(worker.ask("block", Sampled, samples=5, place=0).samples_ms) == 5
    finally:
        worker.end()


def test_a_spent_worker_is_replaced(sides: Sides) -> None:
    """A failed capture costs its worker, which says so and ends when asked; the next one identifies and times."""
    needs_nvcc("cuda_default_stream/x")
    worker = sides.hosts.sides["head"].fork()
    sides.prepare(worker, "cuda_default_stream/x")
    assert worker.ask("identify", Identified).spent
    assert worker.end() == 0
    worker = sides.hosts.sides["head"].fork()
    try:
        sides.prepare(worker, "triton/x")
        assert worker.ask("identify", Identified).digest
        sides.prepare(worker, "triton/x")
        assert len(worker.ask("block", Sampled, samples=5, place=1).samples_ms) == 5
    finally:
        worker.end()


@pytest.mark.parametrize(("case", "alone"), ON_ONE_STREAM.items())
def test_calls_on_one_stream_are_known(sides: Sides, case: str, alone: bool) -> None:
    """A worker knows which calls need no second work queue: not one that hops to another stream and back."""
    worker = sides.hosts.sides["head"].fork(one_queue=True)
    try:
        sides.prepare(worker, case)
        assert worker.ask("identify", Identified).one_by_one is alone
    finally:
        worker.end()


HOST_CASE = """\
import time

import torch
import triton.language as tl
from ratchet import benchmark
from triton import jit

BLOCK = 256


@jit
def scale(x, out, factor, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, tl.load(x + at) * factor)


@benchmark
def NAME(*, device):
    x = torch.randn(1 << 16, device=device)
    out = torch.empty_like(x)

    def run():
        scale[(x.numel() // BLOCK,)](x, out, 2.0, SIZE=BLOCK)
        HOST
        return out

    return run
"""


def test_host_code_of_a_call_that_waits_or_keeps_the_gpu_waiting(tmp_path: Path) -> None:
    """A call that synchronises and one that is host-bound are identical if unchanged; a constant, a kernel or a wait is seen."""
    pytest.importorskip("triton")
    hosts = {"item": "out[0].item()", "sleep": "time.sleep(0.02)"}
    files = {f"bench/{name}.py": HOST_CASE.replace("NAME", name).replace("HOST", line) for name, line in hosts.items()}
    new_repository(tmp_path / "repo", {"notes.txt": "x\n"})
    play = Playground(tmp_path)
    play.commit({"pyproject.toml": "[tool.ratchet]\n", **files})

    def changed_cases() -> set[str]:
        done = play.finish(play.start("check", "--device", "cuda", "--base", "HEAD~1", "--pairs", "6"), 300)
        assert set(done.outcomes()) == {"item/default", "sleep/default"}, done
        return {name for name, outcome in done.outcomes().items() if outcome is not Outcome.IDENTICAL}

    play.commit({"bench/item.py": "# a comment\n" + files["bench/item.py"]})
    assert changed_cases() == set()
    in_item = [("BLOCK = 256", "BLOCK = 128"), ("* factor", "+ factor"), ("2.0", "3.0")]
    in_sleep = [("0.02", "0.024"), ("BLOCK = 256", "BLOCK = 512")]
    for planted in itertools.zip_longest(in_item, in_sleep):
        changed = {name: change for name, change in zip(("item", "sleep"), planted, strict=True) if change}
        play.commit({f"bench/{name}.py": files[f"bench/{name}.py"].replace(*change) for name, change in changed.items()})
        play.commit(files)
        assert changed_cases() == {f"{name}/default" for name in changed}, planted
