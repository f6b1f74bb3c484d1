"""Mean and variance in one pass in float32."""

# baseline: group_norm
# options: --input 8x16x32x32:float16


def kernel(x):
    groups = x.float().reshape(len(x), 4, -1)
    mean, square = groups.mean(-1, keepdim=True), groups.square().mean(-1, keepdim=True)
    return ((groups - mean) / (square - mean * mean + 1e-5).sqrt()).half().view_as(x)
