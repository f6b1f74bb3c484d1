# plants: growing-cat
# runs on: cpu
"""Windows of a signal are put behind one another as they come."""

import torch

signal = torch.randn(1 << 16)
found = signal[:256].clone()
for start in range(256, 100_000, 128):
    window = signal[start % 60_000 :][:256] * 0.5
    found = torch.hstack((found, window))
