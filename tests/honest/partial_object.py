"""A functools.partial."""

import functools

import torch


def scaled(factor, x):
    return torch.softmax(factor * x, -1) * x


kernel = functools.partial(scaled, 2)
