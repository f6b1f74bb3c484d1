"""The loss of each row, and the accuracy, with a label that is ignored."""

import torch


def kernel(x, labels):
    labels = torch.where(labels == 0, -100, labels)
    losses = torch.nn.functional.cross_entropy(x, labels, reduction="none", ignore_index=-100)
    return losses, (x.argmax(-1) == labels).float().mean()
