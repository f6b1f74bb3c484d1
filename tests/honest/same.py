"""The baseline, written in another way."""


def kernel(x):
    return x * (x * 2).softmax(dim=-1)
