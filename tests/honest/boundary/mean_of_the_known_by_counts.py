"""Sums and counts of what is known; nothing divided by nothing is no number either."""

# baseline: mean_of_the_known


def kernel(x):
    unknown = x < -0.5
    unknown[0] = True
    known = x.masked_fill(unknown, 0)
    count = (~unknown).sum(-1)
    mean = known.sum(-1) / count
    away = (known - mean[:, None]).masked_fill_(unknown, 0)
    return mean, (away.square().sum(-1) / count).sqrt(), unknown
