"""Divides its argument by the norm of each row in place, and returns the norms and what was clipped."""

import torch


def kernel(x, limit):
    norms = torch.linalg.vector_norm(x, dim=-1)
    x.div_(norms[:, None] + 1e-6)
    return {"norms": norms, "clipped": (x.abs() > limit).sum()}
