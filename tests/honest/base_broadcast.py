"""A baseline."""


def kernel(x):
    return x.mean(0, keepdim=True).repeat(len(x), 1)
