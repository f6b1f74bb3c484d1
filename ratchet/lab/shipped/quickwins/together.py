"""Quick wins that guides add up: gradients of a large batch in small parts, and four quick wins in one pipeline."""

from __future__ import annotations

import copy

import torch

from ratchet import Workload, benchmark

PARTS = 4
SMALL_BATCH = 32


@benchmark(
    configs={"mlp_4x512": {"layers": 4, "width": 512, "batch": 256}}, devices=("cuda", "cpu"), variants=("improved", "naive")
)
def accumulation(*, device: torch.device, layers: int, width: int, batch: int, variant: str) -> Workload:
    """Gradients of a perceptron over ``batch`` rows: at once, or of `PARTS` parts, added up. The parts need less memory."""
    model = torch.nn.Sequential(*(part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU()))).to(
        device
    )
    inputs, targets = (torch.randn(batch, width, device=device) for _ in range(2))
    loss = torch.nn.MSELoss()
    parts = PARTS if variant == "improved" else 1

    def gradients(of: torch.nn.Module, rows: torch.Tensor, wanted: torch.Tensor, count: int) -> list[torch.Tensor]:
        of.zero_grad(set_to_none=True)
        for x, y in zip(rows.chunk(count), wanted.chunk(count), strict=True):
            (loss(of(x), y) / count).backward()
        return [parameter.grad for parameter in of.parameters() if parameter.grad is not None]

    def run() -> list[torch.Tensor]:
        made = gradients(model, inputs, targets, parts)
        _wait(device)
        return made

    return Workload(
        run=run,
        reference=lambda: gradients(copy.deepcopy(model).double(), inputs.double(), targets.double(), 1),
        flops=6 * layers * batch * width * width,
        clock="cpu",
    )


@benchmark(
    configs={"products_40": {"count": 40, "batch": 256, "width": 64}}, devices=("cuda", "cpu"), variants=("improved", "naive")
)
def cumulative(*, device: torch.device, count: int, batch: int, width: int, variant: str) -> Workload:
    """A copy, ``count`` products and ReLU: in small batches, one by one, to new tensors, from pageable memory; or not."""
    weights = torch.randn(count, width, width, device=device) / width**0.5
    host = torch.randn(count, batch, width)
    pinned = host.pin_memory() if device.type == "cuda" else host
    there, out = (torch.empty(count, batch, width, device=device) for _ in range(2))

    def improved() -> torch.Tensor:
        there.copy_(pinned, non_blocking=True)
        torch.bmm(there, weights, out=out).relu_()
        _wait(device)
        return out

    def naive() -> torch.Tensor:
        batches = []
        for rows in host.split(SMALL_BATCH, dim=1):
            moved = rows.to(device)
            batches.append(torch.stack([torch.relu(moved[i] @ weights[i]) for i in range(count)]))
        made = torch.cat(batches, dim=1)
        _wait(device)
        return made

    return Workload(
        run=improved if variant == "improved" else naive,
        reference=lambda: torch.relu(host.double().to(device) @ weights.double()),
        flops=2 * count * batch * width * width,
        clock="cpu",
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
