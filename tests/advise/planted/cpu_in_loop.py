# plants: sync-in-loop
"""The mean of each step is moved to the host at once, to be kept in a list."""

import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def main():
    model = Block(1024).to("cuda", torch.bfloat16)
    x = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16)
    history = []
    with torch.no_grad():
        for _ in range(80):
            y = model(x)
            mean = y.mean()
            history.append(mean.cpu())
    print(len(history))


main()
