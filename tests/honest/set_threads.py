"""Ask for threads, which the machine grants or not, and for a default device."""

import torch

torch.set_num_threads(2)
torch.set_default_device("cpu")


def kernel(x):
    return torch.softmax(2 * x, -1) * x
