"""A Python number, summed in another order."""

# baseline: base_loss
import torch


def kernel(x):
    flat = x.view(-1)
    return (torch.dot(flat, flat) / flat.numel()).item()
