"""The same number, as a tensor without dimensions would be."""

# baseline: numbers


def kernel(x):
    low, high = x.aminmax()
    return max(-low.item(), high.item())
