"""The same values, in memory of another order."""

# baseline: transposed


def kernel(x):
    return x[::2, 1:].t().contiguous() * 2
