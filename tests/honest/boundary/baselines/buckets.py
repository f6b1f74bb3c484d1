"""The bucket of each element, and how many each one has."""

import torch


def kernel(x):
    places = torch.floor((x.clamp(-4, 4) + 4) / 0.1).long().clamp_(0, 79)
    return places.int(), torch.bincount(places.view(-1), minlength=80)
