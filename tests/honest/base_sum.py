"""A baseline."""


def kernel(x):
    return x.sum(0)
