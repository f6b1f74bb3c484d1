"""Exponentials and their sum, in one tensor; a row that is hidden whole divides nothing by nothing."""

# baseline: masked_softmax


def kernel(x):
    highest = x.tril(-1).amax(-1, keepdim=True)
    weights = (x - highest).exp_().tril_(-1)
    return weights.div_(weights.sum(-1, keepdim=True))
