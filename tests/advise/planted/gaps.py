# plants: host-gaps
"""The host prepares each step for milliseconds while the GPU has nothing to do."""

import time

import torch

weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)


def prepare(step):
    time.sleep(3e-3)  # tokenising, decoding, a request to another service
    return step + 1.0


for step in range(40):
    scale = prepare(step)
    y = (x @ weight) * scale
torch.cuda.synchronize()
