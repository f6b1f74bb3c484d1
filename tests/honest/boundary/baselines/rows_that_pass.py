"""As many rows as pass: another shape for each input."""


def kernel(x):
    return x[x.sum(-1) > 0]
