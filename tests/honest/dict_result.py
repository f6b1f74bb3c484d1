"""A dict in another order, a tensor, integers and a number."""

# baseline: base_dict
import torch


def kernel(x):
    return {"steps": 3, "top": x.argmax(-1), "weights": torch.softmax(x, -1)}
