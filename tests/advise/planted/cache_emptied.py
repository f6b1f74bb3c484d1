# plants: allocation
"""The allocator's cache is emptied in every step, so each step asks the driver for memory again."""

import torch

weight = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)
for _ in range(40):
    hidden = torch.relu(x @ weight)
    out = hidden @ weight
    del hidden, out
    torch.cuda.empty_cache()
torch.cuda.synchronize()
