"""The whole spectrum out of half of it; its mirror is a conjugate."""

# baseline: base_complex
import torch


def kernel(x):
    half = torch.fft.rfft(x)
    mirror = half[..., 1 : x.shape[-1] - half.shape[-1] + 1].flip(-1).conj()
    return torch.cat([half, mirror], -1)
