"""A training step in bfloat16 with a fused optimizer; the loss stays on the GPU until the end."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(4096, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 4096)).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
target = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
running = torch.zeros((), device="cuda", dtype=torch.bfloat16)
for _ in range(15):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    running += loss.detach()
print("mean loss", running.item() / 15)
