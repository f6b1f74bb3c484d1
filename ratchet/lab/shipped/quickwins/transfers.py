"""Quick wins between host and device: pinned memory, and a loader that works ahead."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, Dataset

from ratchet import Workload, benchmark

MIB = 1 << 20
SIDE, BATCH = 256, 8


@benchmark(configs={"mib_64": {"mib": 64}}, devices=("cuda",), variants=("improved", "naive"))
def pinned(*, device: torch.device, mib: int, variant: str) -> Workload:
    """Copy ``mib`` MiB of float32 to the device and wait for it: from pageable memory, or from pinned memory.

    The driver copies pageable memory to a pinned buffer of its own first, a piece at a time.
    """
    x = torch.randn(mib * MIB // 4)
    source = x.pin_memory() if variant == "improved" else x
    out = torch.empty(x.shape, device=device)

    def run() -> torch.Tensor:
        out.copy_(source, non_blocking=variant == "improved")
        torch.cuda.synchronize()
        return out

    return Workload(run=run, reference=lambda: x.double().to(device), flops=0, bytes=x.nbytes, clock="cpu")


class Pictures(Dataset[torch.Tensor]):
    """Pictures that have to be unpacked before use, as JPEG files have."""

    def __init__(self, count: int) -> None:
        rows = torch.randint(0, 256, (count, 3, SIDE, 1), dtype=torch.uint8).expand(-1, -1, -1, SIDE)
        noise = torch.randint(0, 4, (count, 3, SIDE, SIDE), dtype=torch.uint8)
        self._packed = [zlib.compress(picture.numpy().tobytes(), 6) for picture in rows + noise]

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, index: int) -> torch.Tensor:
        content = bytearray(zlib.decompress(self._packed[index]))
        return torch.frombuffer(content, dtype=torch.uint8).reshape(3, SIDE, SIDE)


@benchmark(
    configs={"pictures_32": {"pictures": 32, "workers": 4}},
    cpu_configs={"pictures_16": {"pictures": 16, "workers": 2}},
    devices=("cuda", "cpu"),
    variants=("improved", "naive"),
)
def loader(*, device: torch.device, pictures: int, workers: int, variant: str) -> Workload:
    """Mean colours of all pictures: loaded by this process, or by ``workers`` processes into pinned memory.

    The processes stay from call to call (``persistent_workers``), as they do from epoch to epoch.
    """
    dataset, improved = Pictures(pictures), variant == "improved"
    batches: DataLoader[torch.Tensor] = DataLoader(
        dataset,
        BATCH,
        num_workers=workers if improved else 0,
        pin_memory=improved and device.type == "cuda",
        persistent_workers=improved,
    )
    out = torch.empty(pictures, 3, device=device)

    def run() -> torch.Tensor:
        for number, batch in enumerate(batches):
            there = batch.to(device, non_blocking=improved)
            torch.mean(there.float(), dim=(2, 3), out=out[number * BATCH : (number + 1) * BATCH])
        waiting(device)()
        return out

    def reference() -> torch.Tensor:
        means = [picture.double().mean(dim=(1, 2)) for picture in (dataset[index] for index in range(pictures))]
        return torch.stack(means).to(device)

    return Workload(run=run, reference=reference, clock="cpu")


def waiting(device: torch.device) -> Callable[[], None]:
    """Return what waits until the device is idle."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None
