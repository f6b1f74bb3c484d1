# runs on: cpu
"""A training step on the CPU; the loss is read in every step, which costs a CPU nothing."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, target = torch.randn(512, 512), torch.randn(512, 512)
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    if loss.item() < 1e-3:
        break
