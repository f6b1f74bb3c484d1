"""Imports a neighbour, reads a file that lies beside it, and catches nothing."""

# baseline: base_helper_honest
from pathlib import Path

from sibling_of_ops import scaled

FACTOR = float((Path(__file__).parent / "factor.txt").read_text())


def kernel(x):
    return scaled(x) * FACTOR
