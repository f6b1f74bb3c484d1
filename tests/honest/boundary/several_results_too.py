"""The same leaves in another order of keys, by other operators."""

# baseline: several_results

import torch


def kernel(x):
    positive = x.gt(0)
    return {
        "none": None,
        "positive": (positive, int(torch.count_nonzero(positive))),
        "places": x.max(-1).indices,
        "mean": torch.mv(x.t(), torch.ones(len(x), device=x.device)) / len(x),
    }
