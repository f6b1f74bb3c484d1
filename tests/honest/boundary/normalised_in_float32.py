"""All steps in float32, and rounded once."""

# baseline: normalised_bfloat16
# options: --input 256x1024:bfloat16 --input 1024:bfloat16 --input 1024:bfloat16

import torch


def kernel(x, weight, bias):
    normal = torch.nn.functional.layer_norm(x.float(), (x.shape[-1],), weight.float(), bias.float())
    return torch.nn.functional.silu(normal).bfloat16()
