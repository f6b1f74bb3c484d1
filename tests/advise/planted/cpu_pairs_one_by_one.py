# plants: gemm-loop
# runs on: cpu
"""The products of many pairs of small matrices are taken in a loop."""

import torch

left, right = torch.randn(80, 12, 12), torch.randn(80, 12, 12)
with torch.no_grad():
    for _ in range(8):
        products = []
        for at in range(80):
            products.append(torch.mm(left[at], right[at]))
