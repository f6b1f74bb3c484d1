"""Accumulate in float32 and round once: further from the baseline than bfloat16's last digit, closer to float64."""

# baseline: bfloat16_layer
# options: --input 128x512:bfloat16 --input 256x512:bfloat16

import torch


def kernel(x, weight):
    return torch.relu_(x.float() @ weight.float().T).bfloat16()
