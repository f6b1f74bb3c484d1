"""Planted causes: pairs of a sound and a bad variant that compute the same, to see whether a diagnosis names the cause.

`ratchet doctor cases` does not look into this folder; ``ratchet check --bench bench/planted`` does. Each config is a cause. Which
variant it runs is VARIANT below: a commit that changes this one word to ``"bad"`` plants every cause at once.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch

from ratchet import Workload, benchmark, nvcc

Variant = Literal["good", "bad"]
VARIANT: Variant = "good"
KERNELS = Path(__file__).parent / "kernels"
MI = 1 << 20


@dataclass(frozen=True)
class Data:
    """The tensors that the kernels of one cause read and write."""

    x: torch.Tensor
    out: torch.Tensor
    scratch: torch.Tensor
    reference: Callable[[], torch.Tensor]
    flops: float


def _affine(x: torch.Tensor) -> torch.Tensor:
    return 2 * x.double() + 1


def _elements(count: int, reference: Callable[[torch.Tensor], torch.Tensor] = _affine, flops: float = 2) -> Data:
    """One output for each of ``count`` random inputs; ``flops`` for each of them."""
    x = torch.randn(count, device="cuda")
    return Data(x, torch.empty_like(x), torch.empty_like(x), lambda: reference(x), flops * count)


def _square(reference: Callable[[torch.Tensor], torch.Tensor], flops: float) -> Data:
    x = torch.randn(4096, 4096, device="cuda")
    return Data(x, torch.empty_like(x), torch.empty(0, device="cuda"), lambda: reference(x), flops * x.numel())


def _spills() -> Data:
    x = torch.randn(64, MI // 4, device="cuda")

    def reference() -> torch.Tensor:
        values = list(x.double())
        for _ in range(8):
            for j in range(64):
                values[j] = values[j] * 0.5 + values[(j + 1) % 64]
        return torch.stack(values).sum(0)

    return Data(x, torch.empty(x.shape[1], device="cuda"), x.new_empty(0), reference, x.numel() * 17)


def _extra_pass() -> Data:
    x = torch.rand(32 * MI, device="cuda")

    def reference() -> torch.Tensor:
        shares = x.view(-1, 1024, 1024).double()
        return torch.stack((shares.sum((0, 2)), shares.square().sum((0, 2))))

    return Data(x, torch.empty(2, 1024, device="cuda"), x.new_empty(0), reference, 3 * x.numel())


def _tail() -> Data:
    def reference(x: torch.Tensor) -> torch.Tensor:
        fixed = 0.001 / (1 - 0.999)
        return fixed + (x.double() - fixed) * 0.999**2048

    processors = torch.cuda.get_device_properties(0).multi_processor_count
    return _elements(processors * 2 * 1024, reference, 2 * 2048)


def _atomics() -> Data:
    x = torch.randint(0, 64, (2 * MI,), device="cuda", dtype=torch.int32)
    return Data(x, x.new_empty(64), x.new_empty(0), lambda: torch.bincount(x.long(), minlength=64).int(), x.numel())


def _divergence() -> Data:
    def reference(x: torch.Tensor) -> torch.Tensor:
        out = x.double()
        odd = out[1::2]
        for _ in range(128):
            odd = odd * 0.98 - odd.square() * 0.001
        fixed = 0.01 / (1 - 0.99)
        return torch.stack((fixed + (out[0::2] - fixed) * 0.99**256, odd), 1).flatten()

    return _elements(4 * MI, reference, 512)


def _polynomial(x: torch.Tensor) -> torch.Tensor:
    v = x.double() * 0.25
    total = torch.ones_like(v)
    for _ in range(64):
        total = total * v + 0.1
    return total


CUDA: dict[str, Callable[[], Data]] = {
    "coalescing": lambda: _square(_affine, 2),
    "spills": _spills,
    "bank_conflicts": lambda: _square(lambda x: x.double().T, 0),
    "occupancy": lambda: _elements(32 * MI),
    "extra_pass": _extra_pass,
    "extra_kernel": lambda: _elements(32 * MI, lambda x: _affine(x).relu(), 3),
    "launch_storm": lambda: _elements(MI),
    "tail": _tail,
    "atomics": _atomics,
    "divergence": _divergence,
    "in_flight": lambda: _elements(16 * MI),
    "precision": lambda: _elements(16 * MI, _polynomial, 128),
}
"""Cause → its data; the kernel is ``kernels/<cause>.cu``, compiled with BAD=0 or BAD=1."""

MATMULS: dict[str, tuple[int, dict[Variant, dict[str, Any]]]] = {
    "tensor_cores": (
        512,
        {
            "good": {"tensor": True, "tile": (128, 128, 32), "warps": 8},
            "bad": {"tensor": False, "tile": (128, 128, 32), "warps": 8},
        },
    ),
    "tile": (
        2048,
        {
            "good": {"tensor": True, "tile": (128, 128, 64), "warps": 8},
            "bad": {"tensor": True, "tile": (32, 32, 32), "warps": 4},
        },
    ),
}
"""Cause → inner side of the product (2048, inner) × (inner, 2048), and what each variant launches."""

COPIES = ("pageable_copies",)
"""Host to device; they run no kernel, so only a trace sees them."""
CAUSES = (*CUDA, *MATMULS, *COPIES)


@benchmark(configs={cause: {"cause": cause} for cause in CAUSES}, requires=("nvcc", "triton"))
def planted(*, device: torch.device, cause: str) -> Workload:  # noqa: ARG001 - always the GPU
    """The variant VARIANT of one cause."""
    return build(cause, VARIANT)


def build(cause: str, variant: Variant) -> Workload:
    """One side of a pair. Raises KeyError for a cause or variant that does not exist."""
    if cause in COPIES:
        return _copies(pinned=variant == "good")
    return _product(cause, variant) if cause in MATMULS else _compiled(cause, variant)


def compiled(cause: str, variant: Variant, arch: str | None = None) -> Path:
    """The folder that nvcc's result for one variant is kept in."""
    return nvcc.build(KERNELS / f"{cause}.cu", macros={"BAD": int(variant == "bad")}, arch=arch)


def _compiled(cause: str, variant: Variant) -> Workload:
    data = CUDA[cause]()
    library = ctypes.CDLL(str(compiled(cause, variant) / nvcc.LIBRARY))
    pointer = ctypes.c_void_p
    library.planted.argtypes = [pointer, pointer, pointer, ctypes.c_longlong, pointer]
    library.error_name.restype = ctypes.c_char_p
    x, out, scratch = data.x, data.out, data.scratch

    def run() -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        code = library.planted(x.data_ptr(), out.data_ptr(), scratch.data_ptr(), x.numel(), stream)
        if code != 0:
            raise RuntimeError(f"{cause} was not launched: {library.error_name(code).decode()}")
        return out

    return Workload(
        run=run,
        reference=data.reference,
        dtype=str(x.dtype).removeprefix("torch."),
        flops=data.flops,
        bytes=x.nbytes + out.nbytes,
    )


def _product(cause: str, variant: Variant) -> Workload:
    inner, launches = MATMULS[cause]
    kernel = _load(KERNELS / "matmul_triton.py")
    a = torch.randn(2048, inner, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(inner, 2048, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(2048, 2048, device="cuda", dtype=torch.bfloat16)

    def run() -> torch.Tensor:
        kernel.launch(a, b, out, **launches[variant])
        return out

    return Workload(
        run=run,
        reference=lambda: a.double() @ b.double(),
        dtype="bfloat16",
        flops=2 * a.shape[0] * inner * b.shape[1],
        bytes=a.nbytes + b.nbytes + out.nbytes,
    )


def _copies(*, pinned: bool) -> Workload:
    x = torch.randn(MI, pin_memory=pinned)
    out = torch.empty(MI, device="cuda")
    return Workload(
        run=lambda: out.copy_(x, non_blocking=True), reference=x.double().cuda, dtype="float32", flops=0, bytes=x.nbytes
    )


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"planted_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
