"""A number of Python."""


def kernel(x):
    return x.abs().max().item()
