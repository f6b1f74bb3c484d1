"""Returns its result in channels-last order."""

# baseline: base_images
# options: --input 2x3x64x64
import torch

torch.manual_seed(0)
WEIGHT = torch.randn(8, 3, 3, 3).contiguous(memory_format=torch.channels_last)


def kernel(x):
    return torch.conv2d(x.contiguous(memory_format=torch.channels_last), WEIGHT, padding=1).relu_()
