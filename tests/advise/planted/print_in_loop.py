# plants: sync-in-loop
"""A tensor is printed in every step, for which the host waits."""

import torch

x = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16) * 0.03


def step(x):
    for _ in range(6):
        x = torch.relu(x @ weight)
    return x


for number in range(40):
    x = step(x)
    print(number, x.float().norm())
