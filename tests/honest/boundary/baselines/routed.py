"""Each row goes to the two best of eight experts, of rounded scores."""

import torch


def kernel(x, gate):
    scores = torch.round(2 * (x @ gate)) / 2
    best, expert = scores.topk(2, -1)
    return torch.softmax(best, -1), expert, torch.nn.functional.one_hot(expert[:, 0], 8).sum(0).shape[0]
