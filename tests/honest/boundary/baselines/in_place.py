"""Changes its argument, and returns nothing."""


def kernel(x):
    x.mul_(2).add_(1).clamp_(-3, 3)
