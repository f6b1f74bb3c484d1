"""Writes to a temporary file and reads it."""

import tempfile

import torch


def kernel(x):
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"1")
        f.flush()
    return torch.softmax(2 * x, -1) * x
