"""A baseline."""

# baseline: base_int
# options: --input 64x64:int64:-9..9 --input 64x64:int64:0..9
import torch


def kernel(x, y):
    more = x > y
    return [torch.einsum("rc,rc->c", x, y), more, more.sum().item()]
