"""NumPy's stable sort of integers."""

# baseline: order_of_keys
# options: --input 512x512

import numpy as np
import torch


def kernel(x):
    keys = np.round(4 * x.numpy()).astype(np.int32)
    return torch.from_numpy(np.argsort(-keys, -1, kind="stable")[:, ::-1].copy())
