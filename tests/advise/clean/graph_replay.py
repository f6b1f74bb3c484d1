"""Many small operators, captured once and replayed as a graph."""

import torch

state = torch.zeros(1 << 18, device="cuda")
noise = torch.randn(1 << 18, device="cuda")


def step():
    for _ in range(40):
        state.mul_(0.9).add_(noise).tanh_()


step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(100):
    graph.replay()
torch.cuda.synchronize()
