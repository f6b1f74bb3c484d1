"""Quick wins of whole stages: what happens before and after a model, each as one operation or a few."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.nn.functional import interpolate

from ratchet import Workload, benchmark, nvcc

SOURCE = Path(__file__).parent / "kernels" / "preprocess.cu"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WANTED, THRESHOLD = tuple(range(0, 80, 2)), 0.7
PADDING, SCALE = (12.0, 20.0), (0.5, 0.75)


@benchmark(
    configs={"full_hd": {"height": 1080, "width": 1920, "size": 640}},
    cpu_configs={"half_hd": {"height": 540, "width": 960, "size": 320}},
    devices=("cuda", "cpu"),
    requires=("nvcc",),
    variants=("improved", "naive"),
)
def preprocess(*, device: torch.device, height: int, width: int, size: int, variant: str) -> Workload:
    """A picture of 8 bits, BGR, rows first, becomes a normalised float32 RGB tensor (1, 3, size, size) on the device.

    Naive: step by step on the CPU, constants made in each call, then a pageable copy. Improved on a GPU: the raw picture goes
    there from pinned memory, and one kernel does the rest; on a CPU: constants kept and folded, and applied to the small picture.
    """
    picture = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8)

    def naive() -> torch.Tensor:
        x = picture.permute(2, 0, 1).unsqueeze(0).float() / 255
        x = x[:, [2, 1, 0]]
        x = (x - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)
        x = interpolate(x, size=(size, size), mode="bilinear", align_corners=False).to(device)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return x

    def reference() -> torch.Tensor:
        x = interpolate(picture.permute(2, 0, 1)[None].double(), size=(size, size), mode="bilinear", align_corners=False)
        mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in (MEAN, STD))
        return ((x[:, [2, 1, 0]] / 255 - mean) / std).to(device)

    improved = _preprocess_gpu if device.type == "cuda" else _preprocess_cpu
    run = naive if variant == "naive" else improved(picture, size, device)
    return Workload(run=run, reference=reference, clock="cpu")


def _preprocess_gpu(picture: torch.Tensor, size: int, device: torch.device) -> Callable[[], torch.Tensor]:
    height, width, _ = picture.shape
    function = nvcc.load(SOURCE).preprocess
    integer, pointer = ctypes.c_int, ctypes.c_void_p
    function.argtypes = [pointer, pointer, integer, integer, integer, pointer, pointer]
    raw, staging = torch.empty_like(picture, device=device), picture.pin_memory()
    # Factor and offset of each channel, in the order of the result: (v / 255 − mean) / std = v × factor + offset.
    folded = torch.tensor([(1 / (255 * s), -m / s) for m, s in zip(MEAN, STD, strict=True)], device=device)
    out = torch.empty(1, 3, size, size, device=device)

    def run() -> torch.Tensor:
        raw.copy_(staging, non_blocking=True)
        stream = torch.cuda.current_stream().cuda_stream
        if code := function(raw.data_ptr(), out.data_ptr(), height, width, size, folded.data_ptr(), stream):
            raise RuntimeError(f"preprocess was not launched: CUDA error {code}")
        torch.cuda.synchronize()
        return out

    return run


def _preprocess_cpu(picture: torch.Tensor, size: int, device: torch.device) -> Callable[[], torch.Tensor]:
    factor = torch.tensor([1 / (255 * s) for s in STD], device=device).view(1, 3, 1, 1)
    offset = torch.tensor([-m / s for m, s in zip(MEAN, STD, strict=True)], device=device).view(1, 3, 1, 1)
    planes = picture.permute(2, 0, 1).unsqueeze(0)

    def run() -> torch.Tensor:
        small = interpolate(planes.float(), size=(size, size), mode="bilinear", align_corners=False)
        return small[:, [2, 1, 0]].mul_(factor).add_(offset)

    return run


@benchmark(configs={"queries_300": {"queries": 300, "classes": 91}}, devices=("cuda", "cpu"), variants=("improved", "naive"))
def postprocess(*, device: torch.device, queries: int, classes: int, variant: str) -> Workload:
    """Boxes of wanted classes above a threshold, without padding and in the size of the picture, the surest first.

    Naive: `torch.isin`, constants made in each call, a new tensor for each step. Improved: a table of wanted classes, constants
    kept on the device, steps in place. What depends on the data (filter, sort) is the same in both.
    """
    logits = 2 * torch.randn(queries, classes, device=device)
    boxes = 640 * torch.rand(queries, 4, device=device)
    wanted = torch.zeros(classes, dtype=torch.bool, device=device)
    wanted[list(WANTED)] = True
    padding, scale = (torch.tensor(values * 2, device=device) for values in (PADDING, SCALE))

    def improved() -> tuple[torch.Tensor, torch.Tensor]:
        best, kind = logits.max(-1)
        keep = wanted[kind].logical_and_(best.sigmoid_() > THRESHOLD)
        return _sorted(boxes[keep].sub_(padding).div_(scale), best[keep], device)

    def naive() -> tuple[torch.Tensor, torch.Tensor]:
        best, kind = logits.max(-1)
        scores = best.sigmoid()
        keep = torch.isin(kind, torch.tensor(WANTED, device=device)) & (scores > THRESHOLD)
        moved = boxes[keep] - torch.tensor(PADDING * 2, device=device)
        return _sorted(moved / torch.tensor(SCALE * 2, device=device), scores[keep], device)

    def reference() -> tuple[torch.Tensor, torch.Tensor]:
        best, kind = logits.max(-1)
        keep = wanted[kind] & (best.sigmoid() > THRESHOLD)
        scores, order = best.double().sigmoid()[keep].sort(descending=True)
        return ((boxes[keep].double() - _double(PADDING, device)) / _double(SCALE, device))[order], scores

    return Workload(run=improved if variant == "improved" else naive, reference=reference, clock="cpu")


def _sorted(boxes: torch.Tensor, scores: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    scores, order = scores.sort(descending=True)
    boxes = boxes[order]
    if device.type == "cuda":
        torch.cuda.synchronize()
    return boxes, scores


def _double(values: Sequence[float], device: torch.device) -> torch.Tensor:
    return torch.tensor([*values, *values], dtype=torch.float64, device=device)
