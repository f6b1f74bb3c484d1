# plants: sync-in-loop
"""The loss is read after every step, so the GPU runs dry before the next step is launched."""

import torch

x = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
layers = [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(4)]


def forward(x):
    for weight in layers:
        x = torch.relu(x @ weight)
    return x.float().square().mean()


losses = []
for _ in range(60):
    losses.append(forward(x).item())
print("last loss", losses[-1])
