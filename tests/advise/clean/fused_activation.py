"""A large activation in one kernel each, results in turn in two buffers' worth of memory."""

import torch

x = torch.randn(16384, 8192, device="cuda", dtype=torch.bfloat16)
weight = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(12):
        y = torch.nn.functional.gelu(x @ weight, approximate="tanh")
torch.cuda.synchronize()
