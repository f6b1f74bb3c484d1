"""Makes the arguments of evaluations with --inputs."""

import torch


def make_inputs(seed, device):
    generator = torch.Generator(device=device).manual_seed(seed)
    return (torch.randn(512, 512, generator=generator, device=device),)
