"""Sums that nearly cancel out."""


def kernel(x):
    return x.sum(-1), x.sum()
