"""argmax by max; ties of structured inputs come in another order."""


# baseline: base_argmax
def kernel(x):
    return x.shape[-1] - 1 - x.flip(-1).argmax(-1)
