"""A module of torch with a buffer that is made at the first call."""

import torch


class Softmax(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.two = None

    def forward(self, x):
        if self.two is None:
            self.two = torch.tensor(2.0)
        return torch.softmax(self.two * x, -1) * x


kernel = Softmax()
