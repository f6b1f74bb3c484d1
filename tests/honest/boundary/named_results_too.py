"""The same moments in two passes: a tuple without names, and a tensor as number."""

# baseline: named_results

from collections import namedtuple

Moments = namedtuple("Moments", ["mean", "variance"])


def kernel(x):
    mean = x.mean(-1)
    return [Moments(mean, (x - mean[:, None]).square().sum(-1) / (x.shape[-1] - 1)), len(x)]
