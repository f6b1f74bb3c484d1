"""Beside `base_helper` and `rewrites_neighbour`, which imports it."""


def work(out):
    return out
