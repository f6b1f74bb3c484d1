"""A small vision pipeline, as one writes it first: a frame of bytes becomes floats, goes to the GPU, through a network, and back.

research/experiments.sh improves it change by change with `ratchet experiment`. Each stage can be called alone.
"""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

from ratchet import Workload, benchmark

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSES, WANTED = 91, (1, 3, 17, 44)

CONFIGS = {"frame": {"height": 720, "width": 1280, "side": 256}}
CPU_CONFIGS = {"frame": {"height": 180, "width": 320, "side": 256}}


def network(device: torch.device) -> torch.nn.Module:
    """Return a network with a stride of 32: scores of all classes, and four numbers of a box, at each place."""
    layers = (
        torch.nn.Conv2d(3, 32, 8, stride=8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 4, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, CLASSES + 4, 1),
    )
    return torch.nn.Sequential(*layers).to(device).eval()


@benchmark(configs=CONFIGS, devices=("cuda", "cpu"), cpu_configs=CPU_CONFIGS)
def pipeline(*, device: torch.device, height: int, width: int, side: int) -> Workload:
    """From a frame of (height, width, 3) bytes to the boxes and labels of (side / 32)² places, on the host."""
    frame = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8)
    model = network(device)
    scale = torch.tensor([width, height, width, height], device=device)

    def prepare() -> torch.Tensor:
        return frame.float() / 255

    def upload(image: torch.Tensor) -> torch.Tensor:
        return image.to(device)

    def preprocess(image: torch.Tensor) -> torch.Tensor:
        mean, std = torch.tensor(MEAN, device=device), torch.tensor(STD, device=device)
        normal = (image - mean) / std
        return interpolate(normal.permute(2, 0, 1)[None], size=(side, side), mode="bilinear")

    def infer(small: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(small)[0].flatten(1)

    def postprocess(found: torch.Tensor) -> torch.Tensor:
        labels = found[:CLASSES].argmax(0)
        wanted = torch.isin(labels, torch.tensor(WANTED, device=device))
        boxes = torch.stack([box.sigmoid() * scale for box in found[CLASSES:].T])
        return torch.cat((boxes, labels[:, None], wanted[:, None]), dim=1)

    def download(boxes: torch.Tensor) -> torch.Tensor:
        return boxes.cpu()

    def run() -> torch.Tensor:
        return download(postprocess(infer(preprocess(upload(prepare())))))

    image = prepare()
    there = upload(image)
    small = preprocess(there)
    found = infer(small)
    boxes = postprocess(found)
    return Workload(
        run=run,
        stages={
            "prepare": prepare,
            "upload": lambda: upload(image),
            "preprocess": lambda: preprocess(there),
            "infer": lambda: infer(small),
            "postprocess": lambda: postprocess(found),
            "download": lambda: download(boxes),
        },
    )
