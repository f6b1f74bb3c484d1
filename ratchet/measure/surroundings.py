"""The environment variables that a repository's own code may see."""

from __future__ import annotations

from collections.abc import Mapping

from ratchet.subprocesses import STRAY
from ratchet.workload import Device

_PRIVATE = ("GITHUB_", "ACTIONS_", "RUNNER_")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Everything but a CI runner's tokens and files that set its outputs, and what would lead git to another repository."""
    return {name: value for name, value in environ.items() if not name.startswith(_PRIVATE) and name not in STRAY}


def of_benchmarks(environ: Mapping[str, str], device: Device, threads: int, gpu_uuid: str | None) -> dict[str, str]:
    """What a process that imports benchmarks gets: one GPU or none, and the same layouts on both sides."""
    kept = without_secrets(environ) | {
        "PYTHONHASHSEED": "0",  # the same layouts on both sides
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available() at import must not initialise CUDA
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": gpu_uuid or "",
    }
    if device == "cpu":
        kept |= {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return kept
