"""The nearest of 256 centres."""


def kernel(x, centres):
    return (x[:, None, :] - centres).square().sum(-1).argmin(-1)
