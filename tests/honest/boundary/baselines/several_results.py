"""Tensors of three types, a number, and nothing."""


def kernel(x):
    return {"mean": x.mean(0), "places": x.argmax(-1), "positive": (x > 0, (x > 0).sum().item()), "none": None}
