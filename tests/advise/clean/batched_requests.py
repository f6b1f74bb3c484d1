"""Requests are stacked to a batch of 256 before they pass the perceptron."""

import torch

up = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16)
down = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
requests = torch.randn(256, 4096, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(80):
        answers = torch.relu(requests @ up) @ down
torch.cuda.synchronize()
