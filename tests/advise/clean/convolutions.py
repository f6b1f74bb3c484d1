"""A few convolutions on a large batch, in bfloat16 and channels_last."""

import torch

net = torch.nn.Sequential(
    torch.nn.Conv2d(64, 256, 3, padding=1), torch.nn.ReLU(inplace=True), torch.nn.Conv2d(256, 256, 3, padding=1)
).to("cuda", torch.bfloat16, memory_format=torch.channels_last)
images = torch.randn(64, 64, 112, 112, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
with torch.inference_mode():
    for _ in range(20):
        features = net(images)
torch.cuda.synchronize()
