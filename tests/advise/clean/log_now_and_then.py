"""The loss is read once in fifty steps, which the GPU hardly notices."""

import torch

x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
layers = [torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(3)]
with torch.inference_mode():
    for step in range(150):
        y = x
        for weight in layers:
            y = torch.relu(y @ weight)
        if step % 50 == 49:
            print("norm", y.float().norm().item())
