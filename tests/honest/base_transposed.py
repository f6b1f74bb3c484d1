def kernel(x):
    return x.t().contiguous()
