# plants: sync-in-loop
"""Boxes are filtered by a mask, whose size the host has to know: a hidden synchronisation in each call."""

import torch

features = torch.randn(65536, 512, device="cuda", dtype=torch.bfloat16)
head = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)


def detect():
    hidden = features
    for _ in range(3):
        hidden = torch.relu(hidden @ head)
    scores = hidden.float().mean(dim=1)
    return hidden[scores > scores.mean()]


for _ in range(50):
    kept = detect()
torch.cuda.synchronize()
