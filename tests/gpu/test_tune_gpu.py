"""`ratchet tune` on a real GPU: Triton and CUDA C++, compiled ahead without launching anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.tune.records import TuningRecord
from tests.integration.playground import Playground, new_repository

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

TRITON = """\
import torch
import triton
import triton.language as tl
from ratchet import Workload, benchmark


@triton.jit
def _scale(x, out, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    tl.static_assert(KIND != "refused", "not this one")
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    if KIND == "illegal":
        at = at + (1 << 42)
        tl.store(out + at, value)
    else:
        tl.store(out + at, value * 3.0 if KIND == "right" else value, mask=at < n)


@benchmark(configs={"mib_64": {"n": 1 << 24}}, requires=("triton",))
def scale(*, device, n):
    x = torch.randn(n, device=device)
    out = torch.empty_like(x)

    def run(BLOCK, WARPS, KIND):
        _scale[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK, KIND=KIND, num_warps=WARPS)
        return out

    return Workload(
        run=run, reference=lambda: x.double() * 3, dtype="float32", flops=n, bytes=2 * x.nbytes,
        tune={"BLOCK": (32, 1024), "WARPS": (4, 64), "KIND": ("right", "wrong", "refused", "illegal")},
        tuning={"BLOCK": 32, "WARPS": 4, "KIND": "right"},
        constraints=(lambda BLOCK, WARPS, KIND: KIND == "right" or (BLOCK == 1024 and WARPS == 4),),
    )
"""
CUDA = """\
#ifndef BLOCK
#define BLOCK 32
#endif
#if BLOCK == 96
#error not this one
#endif
__global__ void scale_kernel(const float* x, float* out, long long n) {
    const long long at = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    if (at < n) out[at] = 3.0f * x[at];
}
extern "C" int scale(const float* x, float* out, long long n, cudaStream_t stream) {
    scale_kernel<<<static_cast<unsigned>((n + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(x, out, n);
    return static_cast<int>(cudaGetLastError());
}
"""
CUDA_BENCH = """\
import ctypes, functools, pathlib
import torch
from ratchet import Workload, benchmark, nvcc

SOURCE = pathlib.Path(__file__).parent / "kernels" / "scale.cu"


@benchmark(configs={"mib_64": {"n": 1 << 24}}, requires=("nvcc",))
def scale(*, device, n):
    x = torch.randn(n, device=device)
    out = torch.empty_like(x)

    @functools.cache
    def library(BLOCK):
        loaded = nvcc.load(SOURCE, macros={"BLOCK": BLOCK})
        loaded.scale.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_void_p]
        return loaded

    def run(BLOCK):
        code = library(BLOCK).scale(x.data_ptr(), out.data_ptr(), n, torch.cuda.current_stream().cuda_stream)
        if code != 0:
            raise RuntimeError(f"scale was not launched: invalid configuration ({code})")
        return out

    return Workload(
        run=run, reference=lambda: x.double() * 3, dtype="float32", flops=n, bytes=2 * x.nbytes,
        tune={"BLOCK": (32, 96, 256, 2048)}, tuning={"BLOCK": 32},
    )
"""
DRY = """\
import sys
import torch
import bench_triton, bench_cuda
from ratchet import Workload
from ratchet.tune.child import Compiler

device = torch.device("cuda")
made = {
    "triton": (lambda: bench_triton.scale.build(device=device, n=1 << 20), {"BLOCK": 1024, "WARPS": 4, "KIND": "illegal"}),
    "cuda": (lambda: bench_cuda.scale.build(device=device, n=1 << 20), {"BLOCK": 256}),
    "torch": (lambda: Workload(run=lambda X: torch.ones(8, device=device) + X, reference=lambda: None, dtype="float32",
                               flops=8, bytes=8, tune={"X": (1, 2)}, tuning={"X": 1}), {"X": 2}),
}
build, configuration = made[sys.argv[1]]
print(Compiler(build).compile(configuration, verify=True))
torch.cuda.synchronize()
"""


def tuned(tmp_path: Path, files: dict[str, str]) -> TuningRecord:
    new_repository(tmp_path / "repo", files)
    play = Playground(tmp_path)
    done = play.finish(play.start("tune", "--device", "cuda", "scale", "--time-budget", "120s"), 300)
    assert done.code == 0, done
    return load(next(play.repo.joinpath("tuning").glob("*.json")), TuningRecord)


def test_tunes_triton(tmp_path: Path) -> None:
    """The faster block wins in pairs; what a compiler, the GPU or the check refuses is recorded with its reason, never timed."""
    record = tuned(tmp_path, {"bench/scale.py": TRITON})
    found = {(each.configuration["WARPS"], each.configuration["KIND"]): each for each in record.evaluations}
    assert record.best == {"BLOCK": 1024, "WARPS": 4, "KIND": "right"}, record.verdict
    assert found[64, "right"].outcome == "resources"
    assert found[4, "refused"].outcome == "compile"
    assert "not this one" in found[4, "refused"].reason
    assert found[4, "wrong"].outcome == "wrong"
    assert found[4, "illegal"].outcome == "crash"
    assert len(record.evaluations) == record.valid


def test_tunes_cuda_macros(tmp_path: Path) -> None:
    """Compile-time macros of CUDA C++ are tuned; what nvcc rejects and what cannot be launched is recorded."""
    record = tuned(tmp_path, {"bench/scale.py": CUDA_BENCH, "bench/kernels/scale.cu": CUDA})
    outcomes = {each.configuration["BLOCK"]: each.outcome for each in record.evaluations}
    assert record.best == {"BLOCK": 256}, record.verdict
    assert (outcomes[96], outcomes[2048]) == ("compile", "resources")


@pytest.mark.parametrize(("kind", "dry"), [("triton", True), ("cuda", True), ("torch", False)])
def test_compiling_launches_nothing(tmp_path: Path, kind: str, dry: bool) -> None:
    """Compiling Triton and CUDA C++ ahead leaves the GPU alone, even where a launch would be illegal; torch is found out."""
    tmp_path.joinpath("kernels").mkdir()
    tmp_path.joinpath("kernels/scale.cu").write_text(CUDA, encoding="utf-8")
    for name, text in (("bench_triton.py", TRITON), ("bench_cuda.py", CUDA_BENCH), ("dry.py", DRY)):
        tmp_path.joinpath(name).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "dry.py", kind], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"'dry': {dry}" in done.stdout, done.stdout
    assert "'ending': 'correct'" in done.stdout
