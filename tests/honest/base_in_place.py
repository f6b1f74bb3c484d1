"""A baseline."""


def kernel(x):
    x.mul_(2).tanh_()
    return x
