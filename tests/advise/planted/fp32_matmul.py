# plants: fp32-matmul
"""Large float32 products at full precision, on a GPU that has TF32."""

import torch

torch.backends.cuda.matmul.allow_tf32 = False
x = torch.randn(4096, 4096, device="cuda")
w1 = torch.randn(4096, 4096, device="cuda") * 0.02
w2 = torch.randn(4096, 4096, device="cuda") * 0.02
for _ in range(20):
    y = torch.relu(x @ w1) @ w2
torch.cuda.synchronize()
