"""An array of NumPy, whose strides are negative."""

# baseline: reversed_rows


def kernel(x):
    return (x.numpy() + 1)[::-1]
