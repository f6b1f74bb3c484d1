"""Half precision, where the baseline cannot be asked in float64."""
# baseline: base_float32
# caught as: precision

import torch


def kernel(x):
    return (torch.softmax(2 * x, -1) * x).half().float()
