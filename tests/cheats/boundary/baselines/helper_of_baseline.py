"""A module of the baseline."""


def scaled(x):
    return 2 * x
