"""Quick wins of fewer and larger calls: preallocated outputs, one batched product for many, larger batches."""

from __future__ import annotations

import torch

from ratchet import Workload, benchmark

SMALLEST = 32


@benchmark(
    configs={"large": {"values": 16 << 20, "steps": 1}, "small": {"values": 1 << 14, "steps": 64}},
    cpu_configs={"large": {"values": 12 << 20, "steps": 1}, "small": {"values": 1 << 14, "steps": 16}},
    devices=("cuda", "cpu"),
    variants=("improved", "naive"),
)
def preallocated(*, device: torch.device, values: int, steps: int, variant: str) -> Workload:
    """a + b, ``steps`` times: each into a new tensor, or all into one that is there already."""
    a, b = (torch.randn(values, device=device) for _ in range(2))
    out = torch.empty_like(a)

    def improved() -> torch.Tensor:
        for _ in range(steps):
            torch.add(a, b, out=out)
        _wait(device)
        return out

    def naive() -> torch.Tensor:
        for _ in range(steps):
            made = torch.add(a, b)
        _wait(device)
        return made

    return Workload(
        run=improved if variant == "improved" else naive,
        reference=lambda: a.double() + b.double(),
        flops=steps * values,
        bytes=steps * 3 * a.nbytes if steps == 1 else None,  # more steps find their data in a cache
        clock="cpu",
    )


@benchmark(configs={"products_40": {"count": 40, "size": 64}}, devices=("cuda", "cpu"), variants=("improved", "naive"))
def bmm(*, device: torch.device, count: int, size: int, variant: str) -> Workload:
    """``count`` products of ``size`` × ``size`` float32 matrices: one call for each, or one for all."""
    a, b = (torch.randn(count, size, size, device=device) for _ in range(2))
    out = torch.empty_like(a)

    def improved() -> torch.Tensor:
        torch.bmm(a, b, out=out)
        _wait(device)
        return out

    def naive() -> torch.Tensor:
        for i in range(count):
            out[i] = torch.matmul(a[i], b[i])
        _wait(device)
        return out

    return Workload(
        run=improved if variant == "improved" else naive,
        reference=lambda: a.double() @ b.double(),
        flops=2 * count * size**3,
        bytes=3 * a.nbytes,
        clock="cpu",
    )


@benchmark(
    configs={f"batch_{batch}": {"batch": batch, "width": 1024} for batch in (64, 128, 256)},
    cpu_configs={f"batch_{batch}": {"batch": batch, "width": 256} for batch in (64, 128, 256)},
    devices=("cuda", "cpu"),
    variants=("improved", "naive"),
)
def batch_size(*, device: torch.device, batch: int, width: int, variant: str) -> Workload:
    """A linear layer over ``batch`` rows of float32: 32 at a time, or all at once. The ratio of times is one of FLOP/s."""
    x = torch.randn(batch, width, device=device)
    weight = torch.randn(width, width, device=device) / width**0.5
    out = torch.empty_like(x)
    step = batch if variant == "improved" else SMALLEST
    parts = [(x[i : i + step], out[i : i + step]) for i in range(0, batch, step)]

    def run() -> torch.Tensor:
        for rows, result in parts:
            torch.mm(rows, weight, out=result)
        return out

    return Workload(
        run=run,
        reference=lambda: x.double() @ weight.double(),
        flops=2 * batch * width * width,
        bytes=2 * x.nbytes + weight.nbytes,
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
