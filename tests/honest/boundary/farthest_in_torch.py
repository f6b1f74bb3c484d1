"""The same in torch: two that are nearly as far may change places."""

# baseline: farthest_in_numpy
# options: --input 256x256


def kernel(x):
    away = (x - x.mean(-1, keepdim=True)).abs_().max(-1)
    return away.indices, away.values
