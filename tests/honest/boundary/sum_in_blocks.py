"""Sum blocks first, then their sums, and the other way round for the whole."""

# baseline: sum_of_rows


def kernel(x):
    rows = x.view(len(x), -1, 16).sum(1).flip(-1).sum(-1)
    return rows, x.sum(0).sum()
