# plants: gemm-loop
"""The scores of each attention head are computed by a product of its own."""

import torch

queries = torch.randn(32, 256, 64, device="cuda", dtype=torch.bfloat16)
keys = torch.randn(32, 64, 256, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(25):
        scores = torch.stack([queries[head] @ keys[head] for head in range(32)])
torch.cuda.synchronize()
