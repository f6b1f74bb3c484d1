"""A baseline."""


def kernel(x):
    return x.argmax(-1)
