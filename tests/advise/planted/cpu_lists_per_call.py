# plants: tensor-per-call
# runs on: cpu
"""Each request brings its features as a list of numbers."""

import torch

weight = torch.randn(64, 8)
with torch.no_grad():
    for number in range(300):
        features = [float(number + place) for place in range(2048)]
        scores = torch.tensor(features).view(32, 64) @ weight
