"""The largest of each row of the window, then of both: of equal ones the last."""

# baseline: pooled
# options: --input 4x8x64x64

import torch


def kernel(x):
    n, c, h, w = x.shape
    h, w = h // 2, w // 2
    windows = torch.clamp(x[..., : 2 * h, : 2 * w], min=0).view(n, c, h, 2, w, 2).transpose(3, 4).reshape(n, c, h, w, 4)
    largest, place = windows.flip(-1).max(-1)
    place = 3 - place
    top, left = 2 * torch.arange(h, device=x.device)[:, None], 2 * torch.arange(w, device=x.device)
    return largest, (top + place // 2) * x.shape[-1] + left + place % 2
