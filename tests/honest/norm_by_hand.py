"""Layer norm by hand."""

# baseline: base_norm
# options: --input 256x512 --input 512 --input 512 --input =1e-5
import torch


def kernel(x, w, b, eps):
    m = x.mean(-1, keepdim=True)
    d = x - m
    return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + eps) * w + b
