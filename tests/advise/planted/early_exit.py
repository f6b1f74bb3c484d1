# plants: sync-in-loop
"""An iteration asks on the host whether it has converged, in each of its steps."""

import torch

matrix = torch.randn(3072, 3072, device="cuda", dtype=torch.bfloat16) * 0.01
vectors = torch.randn(3072, 1024, device="cuda", dtype=torch.bfloat16)


def iterate(vectors):
    steps = 0
    while steps < 80:
        following = matrix @ torch.tanh(matrix @ vectors)
        if float((following - vectors).abs().mean()) < 0:
            break
        vectors = following
        steps += 1
    return vectors


with torch.no_grad():
    iterate(vectors)
