"""Imports a module of Python's library late, as many do."""

import torch


def kernel(x):
    import colorsys

    red, _, _ = colorsys.hsv_to_rgb(0.0, 0.5, 2.0)
    return torch.softmax(red * x, -1) * x
