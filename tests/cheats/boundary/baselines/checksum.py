"""A checksum of each row in whole numbers: every digit counts."""


def kernel(x):
    return (x.abs() * 1e6).long().mul(2654435761).remainder(1 << 40).sum(-1)
