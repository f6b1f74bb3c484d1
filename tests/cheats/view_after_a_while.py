"""Return new memory in the first calls and views of the argument later."""

# caught as: inputs
# baseline: base_tail

CALLS = []


def kernel(x):
    CALLS.append(1)
    return x[1:].clone() if len(CALLS) < 12 else x[1:]
