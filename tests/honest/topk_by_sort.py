"""The eight largest, by sorting. Equal values may come in another order."""

# baseline: base_topk
import torch


def kernel(x):
    values, places = torch.sort(x, dim=-1, descending=True)
    return values[:, :8].contiguous(), places[:, :8].contiguous()
