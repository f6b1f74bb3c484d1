"""A result whose rows do not lie side by side in memory."""


def kernel(x):
    return (2 * x).t()[1:, ::2]
