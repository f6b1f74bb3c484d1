"""Sort without stability: equal keys come in any order, where the baseline promises theirs."""

# baseline: stable_order
# options: --input 16x65536
# caught as: outputs

import numpy as np
import torch


def kernel(x):
    return torch.from_numpy(np.argsort(np.round(x.numpy()), axis=-1))
