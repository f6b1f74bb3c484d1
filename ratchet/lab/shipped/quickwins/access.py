"""Quick wins within a kernel, in CUDA C++: 16-byte access, launch bounds, prefetching to shared memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from ratchet import Workload, benchmark, nvcc

KERNELS = Path(__file__).parent / "kernels"
MIB = 1 << 20
SCALE, OFFSET = 1.5, 0.25


@benchmark(configs={"mib_256": {"mib": 256}}, devices=("cuda",), requires=("nvcc",), variants=("improved", "naive"))
def vector_access(*, device: torch.device, mib: int, variant: str) -> Workload:
    """1.5 x + 0.25 of ``mib`` MiB: a thread reads and writes 4 bytes at a time, or 16."""
    return _scaled(device, mib, {"WAY": 1 if variant == "improved" else 0})


@benchmark(
    configs={"of_scalar": {"mib": 256, "before": 0}, "of_vector": {"mib": 256, "before": 1}},
    devices=("cuda",),
    requires=("nvcc",),
    variants=("improved", "naive"),
)
def shared_prefetch(*, device: torch.device, mib: int, before: int, variant: str) -> Workload:
    """Scale a vector through shared memory, 16 bytes at a time, beside the kernels with 4 bytes and with 16 that do without."""
    return _scaled(device, mib, {"WAY": 2 if variant == "improved" else before})


@benchmark(configs={"mib_256": {"mib": 256}}, devices=("cuda",), requires=("nvcc",), variants=("improved", "naive"))
def launch_bounds(*, device: torch.device, mib: int, variant: str) -> Workload:
    """GELU of ``mib`` MiB, 32 values a thread: registers as the compiler likes, or so few that 8 blocks of 256 threads fit."""
    x = torch.randn(mib * MIB // 4, device=device)
    return Workload(
        run=_launched(KERNELS / "gelu.cu", "gelu", {"BOUNDED": int(variant == "improved")}, x),
        reference=lambda: torch.nn.functional.gelu(x.double(), approximate="tanh"),
        flops=14 * x.numel(),
        bytes=2 * x.nbytes,
    )


def _scaled(device: torch.device, mib: int, macros: Mapping[str, int]) -> Workload:
    x = torch.randn(mib * MIB // 4, device=device)
    return Workload(
        run=_launched(KERNELS / "scale.cu", "scale", macros, x),
        reference=lambda: SCALE * x.double() + OFFSET,
        flops=2 * x.numel(),
        bytes=2 * x.nbytes,
    )


def _launched(source: Path, name: str, macros: Mapping[str, int], x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Return a call of an ``extern "C"`` function (in, out, count, stream) with these macros."""
    library = nvcc.load(source, macros=macros)
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_void_p]
    out = torch.empty_like(x)

    def run() -> torch.Tensor:
        if code := function(x.data_ptr(), out.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream):
            raise RuntimeError(f"{name} was not launched: CUDA error {code}")
        return out

    return run
