"""The same product, summed in eight parts."""

# baseline: base_matmul


def kernel(x):
    step = x.shape[1] // 8
    out = x[:, :step] @ x[:step]
    for n in range(step, x.shape[1], step):
        out += x[:, n : n + step] @ x[n : n + step]
    return out
