"""Put other code into a function of the evaluator, which stays the same object."""

# caught as: patched

import torch

from ratchet.lab.child import evaluation

evaluation._Timed.evidence.__code__ = (lambda self, workload: []).__code__


def kernel(x):
    return torch.zeros_like(x)
