# plants: sync-in-loop
"""Boxes are filtered by two masks, whose sizes the host has to know: two hidden synchronisations in each call."""

import torch

features = torch.randn(32768, 512, device="cuda", dtype=torch.bfloat16)
head = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)


def detect():
    hidden = features
    for _ in range(3):
        hidden = torch.relu(hidden @ head)
    scores = hidden.float().mean(dim=1)
    hidden = hidden[scores > scores.mean()]
    areas = hidden.float().amax(dim=1)
    return hidden[areas > areas.mean()]


for _ in range(50):
    kept = detect()
torch.cuda.synchronize()
