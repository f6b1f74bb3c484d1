"""A graph for each shape: the argument is copied in, and the result is copied out."""

# baseline: softmax

import torch

KEPT = {}


def kernel(x):
    if x.shape not in KEPT:
        held, graph, side = x.clone(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.softmax(2 * held, -1)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            out = torch.softmax(2 * held, -1).mul_(held)
        KEPT[x.shape] = held, graph, out
    held, graph, out = KEPT[x.shape]
    held.copy_(x)
    graph.replay()
    return out.clone()
