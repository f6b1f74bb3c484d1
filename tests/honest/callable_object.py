"""An object with a workspace, set up at the first call."""

import torch


class Kernel:
    def __init__(self):
        self.space = None

    def __call__(self, x):
        if self.space is None or self.space.shape != x.shape:
            self.space = torch.empty_like(x)
        torch.mul(x, 2, out=self.space)
        return torch.softmax(self.space, -1).mul_(x)


kernel = Kernel()
