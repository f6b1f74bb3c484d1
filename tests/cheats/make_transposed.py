"""Makes an argument whose columns lie one after another in memory."""

import torch


def make_inputs(seed, device):
    generator = torch.Generator(device=device).manual_seed(seed)
    return (torch.randn(64, 64, generator=generator, device=device).mT,)
