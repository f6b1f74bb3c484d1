"""Tests of how a machine is described."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ratchet
from ratchet.core.device.environment import cpu_model, describe, installed_version, nvcc_version
from ratchet.core.records.environment import Card

pytestmark = pytest.mark.no_cover

CPUINFO = "processor\t: 0\nmodel name\t: Fast CPU\x1b[31m  @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: Second\n"


@pytest.fixture
def cpuinfo(tmp_path: Path) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO)
    return path


def gpu(**changes: Any) -> SimpleNamespace:
    facts = {
        "name": "NVIDIA H200",
        "index": 3,
        "memory_bytes": 150 * 10**9,
        "power_limit_w": 700.0,
        "mig": "off",
        "driver": "580.1",
        "sm_clock_max_mhz": 1980,
        "compute_capability": "9.0",
    }
    return SimpleNamespace(**(facts | changes), card=lambda: Card(uuid="GPU-0aaa"))


def test_gpu_run(cpuinfo: Path) -> None:
    """A GPU run is described by its GPU, driver and software, and not by the number of CPU threads or of the GPU."""
    versions = {"torch_version": "2.9", "cuda_version": "13.0", "triton_version": "3.5"}
    told = describe(gpu(), "cuda", **versions, cpu_threads=8, l2_bytes=62_914_560, cpuinfo=cpuinfo)
    assert told.l2_bytes == 62_914_560
    assert told.cards == (Card(uuid="GPU-0aaa"),)
    assert told.fingerprint.model_dump() == {
        "device": "cuda",
        "gpu": "NVIDIA H200",
        "gpu_memory_bytes": 150 * 10**9,
        "gpu_power_limit_w": 700.0,
        "mig": "off",
        "driver": "580.1",
        "cuda": "13.0",
        "torch": "2.9",
        "triton": "3.5",
        "cpu": "Fast CPU @ 3 GHz",
        "cpu_threads": None,
    }
    assert (told.gpu_index, told.sm_clock_max_mhz, told.compute_capability) == (3, 1980, "9.0")
    assert (told.python, told.ratchet) == (platform.python_version(), ratchet.__version__)


def test_cpu_run(cpuinfo: Path) -> None:
    """A CPU run names its threads and nothing of a GPU, even where there is one."""
    told = describe(gpu(), "cpu", torch_version="2.9", cpu_threads=8, l2_bytes=62_914_560, cpuinfo=cpuinfo)
    assert told.l2_bytes is None
    assert told.fingerprint.cpu_threads == 8
    assert (told.fingerprint.gpu, told.fingerprint.driver, told.fingerprint.mig, told.gpu_index) == (None,) * 4
    assert told.fingerprint == describe(None, "cpu", torch_version="2.9", cpu_threads=8, cpuinfo=cpuinfo).fingerprint


def test_key_ignores_which_gpu(cpuinfo: Path) -> None:
    """Two equal GPUs of one machine have the same key; another driver has another."""
    keys = [describe(each, "cuda", torch_version="2.9", cpuinfo=cpuinfo).fingerprint.key for each in (gpu(), gpu(index=0))]
    assert keys[0] == keys[1]
    assert describe(gpu(driver="581"), "cuda", torch_version="2.9", cpuinfo=cpuinfo).fingerprint.key != keys[0]


def test_versions_from_metadata() -> None:
    """A version that nobody passes in is that of the installed package, and of a package that is not installed None."""
    assert describe(None, "cpu").fingerprint.torch == torch.__version__
    assert installed_version("no-such-package-of-ratchet") is None


def test_torch_is_what_it_calls_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's fingerprint is the same before torch is imported, also where the package's metadata leaves the build out."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda: str = '13.0'\n")
    spec = importlib.util.spec_from_file_location("torch", tmp_path / "torch" / "__init__.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.11.0" if name == "torch" else "3.6.0")
    told = describe(None, "cpu").fingerprint
    assert (told.torch, told.cuda) == ("2.11.0+cu130", "13.0")


def test_torch_stays_out() -> None:
    """Describing a machine does not import torch."""
    script = (
        "import sys; from ratchet.core.device.environment import describe; describe(None, 'cpu'); print('torch' in sys.modules)"
    )
    root = Path(ratchet.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("text", [None, "", "model name :\n", "Processor : none\n"])
def test_unnamed_cpu(tmp_path: Path, text: str | None) -> None:
    """Where /proc/cpuinfo names no CPU there is still a name."""
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    assert cpu_model(path) in {platform.processor(), platform.machine(), "unknown CPU"} - {""}


def test_nvcc_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of nvcc is the release that it states, and None where there is no nvcc."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Copyright (c) 2005-2025 NVIDIA'\necho 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(nvcc))
    assert nvcc_version() == "13.0.48"
    monkeypatch.setenv("CUDACXX", str(tmp_path / "gone"))
    assert nvcc_version() is None
