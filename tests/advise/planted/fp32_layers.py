# plants: fp32-matmul
"""A perceptron runs in float32, and TF32 was never allowed."""

import torch

layers = [torch.randn(3072, 3072, device="cuda") * 0.02 for _ in range(3)]
x = torch.randn(2048, 3072, device="cuda")
with torch.no_grad():
    for _ in range(15):
        out = x
        for weight in layers:
            out = torch.relu(out @ weight)
torch.cuda.synchronize()
