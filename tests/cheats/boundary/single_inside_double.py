"""Compute in float32 what the baseline computes in float64, and convert the result."""

# baseline: double_product
# options: --input 512x512:float64
# claims: nearly 2 times as fast, within a relative tolerance of 1e-3


def kernel(x):
    half = x.float()
    return (half @ half.T).double()
