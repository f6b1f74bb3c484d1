"""NaN rows where everything is masked, as the baseline."""

# baseline: base_masked_softmax
import torch


def kernel(x):
    y = torch.where(x > 0, x, float("-inf"))
    e = torch.exp(y - y.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
