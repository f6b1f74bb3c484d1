"""Quick wins of CUDA graphs: many tiny kernels, where nothing but launches takes time, and a whole model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from ratchet import Workload, benchmark


@benchmark(configs={"kernels_200": {"kernels": 200}}, devices=("cuda",), variants=("improved", "naive"))
def graph_kernels(*, device: torch.device, kernels: int, variant: str) -> Workload:
    """``kernels`` additions to 1024 numbers: launched one by one, or replayed."""
    x = torch.randn(1024, device=device)
    out = torch.empty_like(x)

    def work() -> torch.Tensor:
        out.copy_(x)
        for _ in range(kernels):
            out.add_(0.5)
        return out

    return Workload(
        run=_waiting(captured(work) if variant == "improved" else work),
        reference=lambda: x.double() + 0.5 * kernels,
        clock="cpu",
    )


@benchmark(configs={"mlp_8x512": {"layers": 8, "width": 512, "batch": 64}}, devices=("cuda",), variants=("improved", "naive"))
def graph_model(*, device: torch.device, layers: int, width: int, batch: int, variant: str) -> Workload:
    """Forward pass and loss of a perceptron, inputs and targets copied in: eager, or replayed."""
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model = torch.nn.Sequential(*parts).to(device).requires_grad_(requires_grad=False)
    inputs, targets = (torch.randn(batch, width, device=device) for _ in range(2))
    input_buffer, target_buffer = torch.empty_like(inputs), torch.empty_like(targets)
    loss = torch.nn.MSELoss()

    def work() -> dict[str, torch.Tensor]:
        output = model(input_buffer)
        return {"output": output, "loss": loss(output, target_buffer)}

    replay = captured(work) if variant == "improved" else work

    def run() -> Any:
        input_buffer.copy_(inputs)
        target_buffer.copy_(targets)
        return replay()

    def reference() -> dict[str, torch.Tensor]:
        output = copy.deepcopy(model).double()(inputs.double())
        return {"output": output, "loss": loss(output, targets.double())}

    return Workload(run=_waiting(run), reference=reference, flops=2 * layers * batch * width * width, clock="cpu")


def captured(work: Callable[[], Any]) -> Callable[[], Any]:
    """Capture a call in a CUDA graph, after three calls on a stream of its own; the result is always in the same tensors."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()

    def replay() -> Any:
        graph.replay()
        return result

    return replay


def _waiting(work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        result = work()
        torch.cuda.synchronize()
        return result

    return run
