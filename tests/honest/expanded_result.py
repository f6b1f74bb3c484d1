"""Rows that are all the same, as one row that is repeated by its stride."""

# baseline: base_broadcast


def kernel(x):
    return x.mean(0, keepdim=True).expand(len(x), -1)
