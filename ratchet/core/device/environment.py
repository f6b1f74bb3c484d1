"""Describe the machine and software of a run, from /proc, from other programs and from package metadata.

It runs programs such as nvcc with a time limit, never trusts their output, and does not import torch.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal

import ratchet
from ratchet.core.device.gpu import Gpu
from ratchet.core.errors import CudaBuildError
from ratchet.core.records.environment import Environment, Fingerprint
from ratchet.core.untrusted import clean
from ratchet.nvcc import find_nvcc

_VERSION = re.compile(r"(?:\bV|[Vv]ersion\s+)(\d+(?:\.\d+)+)")
_NUMBER = re.compile(r"(\d+(?:\.\d+)+)")


def ask(arguments: Sequence[str | Path], timeout_s: float = 10.0, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program without a shell and input. Never raises: ``returncode`` is None where it cannot start or end in time."""
    try:
        return subprocess.run(
            arguments,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(arguments, None, "", clean(str(error)))  # type: ignore[arg-type]


def program_version(path: Path) -> str | None:
    """Return the version that ``path --version`` prints, such as ``13.0.48``; None where it prints none."""
    answer = ask([path, "--version"])
    if answer.returncode != 0:
        return None
    found = _VERSION.search(answer.stdout) or _NUMBER.search(answer.stdout)
    return found[1][:40] if found else None


def describe(
    gpu: Gpu | None,
    device: Literal["cuda", "cpu"],
    *,
    torch_version: str | None = None,
    cuda_version: str | None = None,
    triton_version: str | None = None,
    cpu_threads: int | None = None,
    l2_bytes: int | None = None,
    cpuinfo: Path = Path("/proc/cpuinfo"),
) -> Environment:
    """Describe the environment of a run on ``device``; a CPU run leaves ``gpu`` out.

    Versions that the tree's own process did not report (None) come from installed packages.
    """
    used = gpu if device == "cuda" else None
    # Parts of the platform that may matter to a time, and none that names the machine: ``Linux 6.8, glibc 2.39``.
    release, libc = ".".join(platform.release().split(".")[:2]), " ".join(platform.libc_ver()).strip()
    fingerprint = Fingerprint(
        device=device,
        gpu=used and used.name,
        gpu_memory_bytes=used and used.memory_bytes,
        gpu_power_limit_w=used and used.power_limit_w,
        mig=used and used.mig,
        driver=used and used.driver,
        cuda=cuda_version or told_by_torch("cuda") or (f"HIP {hip}" if (hip := told_by_torch("hip")) else None),
        torch=torch_version or told_by_torch("__version__") or installed_version("torch") or "unknown",
        triton=triton_version or installed_version("triton"),
        cpu=cpu_model(cpuinfo),
        cpu_threads=cpu_threads if device == "cpu" else None,
    )
    return Environment(
        fingerprint=fingerprint,
        python=platform.python_version(),
        platform=f"{platform.system()} {release}" + (f", {libc}" if libc else ""),
        ratchet=ratchet.__version__,
        gpu_index=used and used.index,
        sm_clock_max_mhz=used and used.sm_clock_max_mhz,
        l2_bytes=l2_bytes if used else None,
        compute_capability=used and used.compute_capability,
        nvcc=nvcc_version(),
        cards=(used.card(),) if used else (),
    )


def nvcc_version() -> str | None:
    """Return the version of the nvcc that benchmarks in CUDA C++ are compiled with, or None."""
    try:
        return program_version(find_nvcc())
    except CudaBuildError:
        return None


def installed_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def told_by_torch(name: str) -> str | None:
    """Return ``cuda``, ``hip`` or ``__version__`` of the installed torch, read from its file: importing it takes seconds.

    The metadata of the package says ``2.11.0`` where torch itself says ``2.11.0+cu130``.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    said = re.search(rf"^{name}(?:: [^=]+)? = '([^']+)'", text, re.MULTILINE)
    return said[1] if said else None


def cpu_model(cpuinfo: Path) -> str:
    """Return the CPU's name as Linux gives it; elsewhere, and on Arm, where Linux gives none, the name that Python knows."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = [" ".join(clean(line.partition(":")[2]).split()) for line in lines if line.partition(":")[0].strip() == "model name"]
    return next((name for name in named if name), "") or platform.processor() or platform.machine() or "unknown CPU"
