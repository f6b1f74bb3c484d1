# plants: small-batch
"""Independent requests pass a perceptron one by one."""

import torch

up = torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16)
down = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
requests = torch.randn(100, 1, 2048, device="cuda", dtype=torch.bfloat16)
with torch.no_grad():
    for request in requests.unbind():
        answer = torch.relu(request @ up) @ down
torch.cuda.synchronize()
