# plants: small-batch
"""A network is called on one sample at a time, 64 times over."""

import torch

model = torch.nn.Sequential(
    torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)
).to("cuda", torch.bfloat16)
samples = torch.randn(64, 1, 4096, device="cuda", dtype=torch.bfloat16)
results = []
with torch.inference_mode():
    for _ in range(6):
        for sample in samples:
            results.append(model(sample))
torch.cuda.synchronize()
