"""Hardly more work than a copy."""


def kernel(x):
    return 2 * x
