"""Multiply by ten: a value on the border may go to the other side."""

# baseline: buckets
# options: --input 256x256

import torch


def kernel(x):
    places = ((x.clamp(-4, 4) + 4) * 10).long().clamp_(0, 79).view(-1)
    counts = torch.zeros(80, dtype=torch.int64, device=x.device).index_add_(0, places, torch.ones_like(places))
    return places.view_as(x).int(), counts
