"""Beside `sibling_file`, which imports it."""

TWO = 2


def scaled(x):
    return TWO * x
