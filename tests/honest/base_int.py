"""A baseline."""


def kernel(x, y):
    return (x * y).sum(0), (x > y), int((x > y).sum())
