"""A module as generated benchmarks have it, whose weights nobody seeds."""

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(512, 256)

    def forward(self, x):
        return torch.relu(self.one(x))


kernel = Model()
