"""Replay a graph that never gets the inputs of the call."""

# caught as: outputs inputs

import torch

KEPT = []


def kernel(x):
    if not KEPT:
        held, graph = x.clone(), torch.cuda.CUDAGraph()
        torch.softmax(2 * held, -1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = torch.softmax(2 * held, -1) * held
        KEPT.extend((held, graph, out))
    KEPT[1].replay()
    return KEPT[2]
