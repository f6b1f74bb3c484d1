"""Return an array of another library, which speaks DLPack."""

import torch


class Array:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **settings):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def kernel(x):
    return Array(torch.softmax(2 * x, -1) * x)
