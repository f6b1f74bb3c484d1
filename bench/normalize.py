"""Per-row normalisation, (x − mean) / √(variance + eps), without an affine part: our CUDA C++ kernel, and where it came from.

`ratchet variants normalize` times it beside the kernel as it was first written, and beside PyTorch's three kernels.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from pathlib import Path

import torch

from ratchet import Workload, benchmark, nvcc

SOURCE = Path(__file__).parent / "kernels" / "normalize.cu"
ORIGINAL = Path(__file__).parent / "kernels" / "normalize_original.cu"
EPS = 1e-5
LARGEST_ROW = 2048  # values that the registers of one warp hold
TUNE = {
    "BLOCK": (64, 128, 256, 512, 1024),  # threads per block
    "LANES": (8, 16, 32),  # threads per row
    "ROWS": (1, 2, 4),  # rows that the same threads take
    "STREAM": (0, 1),  # 1: the result is written past the caches
}
TUNING = {"BLOCK": 256, "LANES": 32, "ROWS": 1, "STREAM": 0}
REGISTERS, REGISTERS_OF_A_THREAD = 65536, 255  # of a block, on every GPU since 2014
OWN_REGISTERS = 12  # that a thread needs at least beside the values it holds

CONFIGS = {
    "rows_1k": {"rows": 1024, "columns": 128},
    "rows_4k": {"rows": 4096, "columns": 256},
    "rows_8k": {"rows": 8192, "columns": 512},
    "rows_16k": {"rows": 16384, "columns": 1024},
}
CPU_CONFIGS = {name: CONFIGS[name] for name in ("rows_1k", "rows_4k", "rows_8k")}


# Up to here a call takes a dozen microseconds at most, which spread less in a graph than between two events, and its data
# fits the L2 of the GPU that this was measured on (60 MB, H200): replayed in a graph.
LAUNCH_BOUND_BYTES = 40 << 20


@benchmark(
    configs=CONFIGS, devices=("cuda", "cpu"), cpu_configs=CPU_CONFIGS, requires=("nvcc",), variants=("ours", "original", "torch")
)
def normalize(*, device: torch.device, rows: int, columns: int, variant: str) -> Workload:
    """x and out: (rows, columns) float32. Bytes and FLOPs are what the work needs, whatever a variant moves besides.

    Raises ValueError for columns that the kernel does not take, CudaBuildError where a GPU run finds no nvcc.
    """
    if columns % 4 or not 0 < columns <= LARGEST_ROW:
        raise ValueError(f"columns is a multiple of 4 up to {LARGEST_ROW}, not {columns}: rows are read 16 bytes at a time")
    x = torch.randn(rows, columns, device=device)
    is_tuned = device.type == "cuda" and variant == "ours"
    return Workload(
        run=_variant(x, variant),
        reference=lambda: _reference(x),
        dtype="float32",
        # Per row: the mean takes columns operations, the variance 3 × columns, the root 1, the result 2 × columns.
        flops=rows * (6 * columns + 1),
        bytes=2 * x.nbytes,
        tune=TUNE if is_tuned else {},
        tuning=TUNING if is_tuned else {},
        constraints=_constraints(columns) if is_tuned else (),
        clock="graph" if 2 * x.nbytes <= LAUNCH_BOUND_BYTES else "event",
    )


def _variant(x: torch.Tensor, variant: str) -> Callable[..., torch.Tensor]:
    on_gpu = x.device.type == "cuda"
    match variant:
        case "torch":
            return lambda: _three_kernels(x)
        case "original":
            return _original(x) if on_gpu else lambda: _step_by_step(x)
        case _:
            return _on_gpu(x) if on_gpu else lambda: torch.nn.functional.layer_norm(x, (x.shape[1],), eps=EPS)


def _constraints(columns: int) -> tuple[Callable[..., bool], ...]:
    """The values of a thread must fit its registers, which threads of a large block have fewer of: else they are spilled."""

    def fits_registers(BLOCK: int, LANES: int, ROWS: int) -> bool:
        values = 4 * math.ceil(columns / 4 / LANES) * ROWS
        return values + OWN_REGISTERS <= min(REGISTERS_OF_A_THREAD, REGISTERS // BLOCK)

    return (fits_registers,)


def _on_gpu(x: torch.Tensor) -> Callable[..., torch.Tensor]:
    rows, columns = x.shape
    out = torch.empty_like(x)

    @functools.cache
    def library(BLOCK: int, LANES: int, ROWS: int, STREAM: int) -> ctypes.CDLL:
        macros = {"BLOCK": BLOCK, "LANES": LANES, "ROWS": ROWS, "STREAM": STREAM}
        loaded = nvcc.load(SOURCE, macros={**macros, "COLUMNS": columns})
        pointer = ctypes.c_void_p
        loaded.normalize.argtypes = [pointer, pointer, ctypes.c_longlong, ctypes.c_float, pointer]
        loaded.error_name.restype = ctypes.c_char_p
        return loaded

    def run(BLOCK: int, LANES: int, ROWS: int, STREAM: int) -> torch.Tensor:
        kernel = library(BLOCK, LANES, ROWS, STREAM)
        stream = torch.cuda.current_stream().cuda_stream
        code = kernel.normalize(x.data_ptr(), out.data_ptr(), rows, EPS, stream)
        if code != 0:
            raise RuntimeError(f"normalize was not launched: {kernel.error_name(code).decode()}")
        return out

    library(**TUNING)  # where nvcc is missing, the case says so before anything is timed
    return run


def _original(x: torch.Tensor) -> Callable[[], torch.Tensor]:
    rows, columns = x.shape
    out = torch.empty_like(x)
    library = nvcc.load(ORIGINAL)
    pointer = ctypes.c_void_p
    library.normalize_original.argtypes = [pointer, pointer, ctypes.c_longlong, ctypes.c_int, ctypes.c_float, pointer]
    library.error_name.restype = ctypes.c_char_p

    def run() -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        code = library.normalize_original(x.data_ptr(), out.data_ptr(), rows, columns, EPS, stream)
        if code != 0:
            raise RuntimeError(f"normalize_original was not launched: {library.error_name(code).decode()}")
        return out

    return run


def _three_kernels(x: torch.Tensor) -> torch.Tensor:
    """Three kernels over the matrix: moments, difference, quotient; two tiny ones make the roots."""
    variance, mean = torch.var_mean(x, dim=1, keepdim=True, correction=0)
    return (x - mean) / (variance + EPS).sqrt()


def _step_by_step(x: torch.Tensor) -> torch.Tensor:
    """The formula as it stands, a pass for each step: the original's place on a CPU."""
    mean = x.mean(dim=1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=1, keepdim=True)
    return (x - mean) / (variance + EPS).sqrt()


def _reference(x: torch.Tensor) -> torch.Tensor:
    x = x.double()
    centred = x - x.mean(dim=1, keepdim=True)
    return centred / (centred.square().mean(dim=1, keepdim=True) + EPS).sqrt()
