"""Return the argument's own memory, some bytes further on, where the baseline returns new memory."""
# baseline: base_tail
# caught as: inputs

import torch


def kernel(x):
    return torch.from_numpy(x.numpy()[1:])
