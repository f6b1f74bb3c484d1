"""A vendor whose GPUs are not supported: who is told so, and where. Records of its GPUs can still be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ratchet.adopt import doctor
from ratchet.core import machine
from ratchet.core.bench import clocks
from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.device import vendor
from ratchet.core.device.environment import describe
from ratchet.core.device.gpu import Vendor
from ratchet.core.device.vendor import Amd, Nvidia, vendor_here
from ratchet.core.errors import UnfitError
from ratchet.core.records.environment import Environment, Fingerprint
from ratchet.core.records.files import load, save
from ratchet.core.records.profile import Activity
from ratchet.core.records.run import RunRecord
from ratchet.core.report.progress import Progress
from ratchet.core.request import DeviceChoice
from ratchet.explain import sides
from ratchet.explain.ncu import NcuOptions
from ratchet.explain.traces import SideTrace
from ratchet.identical import launches as identity
from tests import examples

UNSUPPORTED = "ratchet does not support AMD GPUs"


@pytest.fixture
def rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The torch of this process says that it was built for ROCm; NVML's binding is not installed."""
    monkeypatch.setattr(torch.version, "hip", "6.4.43484-123eb5128")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(machine, "installed_version", lambda name: "2.9.0+rocm6.4")


def test_the_vendor_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says for whom it was built: the module where it is loaded, else its file."""
    vendors: tuple[Vendor, ...] = (Nvidia(), Amd())
    assert [(one.name, bool(one.unsupported)) for one in vendors] == [("NVIDIA", False), ("AMD", True)]
    assert vendor_here().name == "NVIDIA"
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert vendor_here().name == "AMD"
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(vendor, "told_by_torch", {"hip": "6.4"}.get)
    assert vendor_here().name == "AMD"
    monkeypatch.setattr(vendor, "told_by_torch", {"hip": None}.get)
    assert vendor_here().name == "NVIDIA"


@pytest.mark.usefixtures("rocm")
def test_the_cpu_is_measured_and_the_run_says_why() -> None:
    """Where nobody asked for a GPU, one warning begins the run."""
    device, gpu, warnings = machine.choose(DeviceChoice(), Settings(), {})
    assert (device, gpu) == ("cpu", None)
    assert warnings == (f"Measured on the CPU, since {UNSUPPORTED}: this says nothing about GPU kernels.",)
    assert machine.choose(DeviceChoice(), Settings(device="cpu"), {}) == ("cpu", None, ())


@pytest.mark.usefixtures("rocm")
@pytest.mark.parametrize(
    ("choice", "settings"),
    [
        (DeviceChoice(), Settings(device="cuda")),
        (DeviceChoice(gpu=1), Settings()),
        (DeviceChoice(gpus="all"), Settings()),
        (DeviceChoice(gpus=(0, 1)), Settings()),
    ],
)
def test_whoever_asks_for_a_gpu_is_told(choice: DeviceChoice, settings: Settings) -> None:
    """One sentence says that there is no support, whichever option asked for a GPU."""
    with (
        pytest.raises(UnfitError, match=f"given, but {UNSUPPORTED}\\.|asked for, but {UNSUPPORTED}\\."),
        machine.machines_of(choice, settings, "a test", Progress(), {}),
    ):
        pass


@pytest.mark.usefixtures("rocm")
def test_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says so in place of a GPU, calls the machine unfit, and does not ask for NVIDIA's tools."""
    told = '{"version": "2.9.0+rocm6.4", "cuda": null, "gpu": "AMD Instinct MI300X"}'
    monkeypatch.setattr(doctor, "installed_version", lambda name: "2.9.0")
    monkeypatch.setattr(doctor, "ask", lambda *_, **__: subprocess.CompletedProcess((), 0, told, ""))
    checks = {check.name: check for check in doctor.examine(tmp_path, None)}
    assert checks["torch"].detail == "2.9.0+rocm6.4, built without CUDA: checks run on the CPU"
    assert checks["GPU"] == doctor.Check("GPU", "missing", f"{UNSUPPORTED}: checks run on the CPU", unfit=True)
    assert not {"ncu", "nvcc"} & set(checks)


@pytest.mark.usefixtures("rocm")
def test_its_gpus_are_hidden(tmp_path: Path) -> None:
    """A benchmark on the CPU sees none, whatever the variables said before."""
    tree = TreeSpec.of(Settings(), tmp_path, checkout=tmp_path, device="cpu", gpu_uuid=None)
    seen = benchmark_environ({"CUDA_VISIBLE_DEVICES": "5", "HIP_VISIBLE_DEVICES": "1"}, tree)
    assert seen["HIP_VISIBLE_DEVICES"] == "-1"


@pytest.mark.usefixtures("rocm")
def test_a_vendor_without_machine_code() -> None:
    """Nothing is captured and no driver is looked for: the reason is the vendor's, and the process stays usable."""
    found = identity.of(lambda: pytest.fail("it was called"), Path(), "cuda")
    assert (found.digest, found.opaque, found.spent) == ("", f"{UNSUPPORTED}.", False)
    assert identity.streams_of_others() is None


@pytest.mark.usefixtures("rocm")
def test_a_vendor_without_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile is what torch.profiler saw, with a sentence that says why; ncu is not started, were it there."""
    monkeypatch.setattr("ratchet.explain.ncu.find_ncu", lambda environ: pytest.fail("it was looked for"))
    tree = TreeSpec.of(Settings(), tmp_path, checkout=tmp_path, device="cuda", gpu_uuid="0")
    activity = Activity(calls=1, wall_s=1.0, kernels={"rocblas_gemm": 0.5}, launches=1)
    request = sides.ProfileRequest({"head": tree}, 1, {}, tmp_path, sides.TimeBudget(10))
    profiled = sides.profile_sides(request, {"a": NcuOptions()}, {"a": {"head": SideTrace(activity, None)}})
    assert profiled["a"]["head"].steps_down == [f"{UNSUPPORTED}.", sides.INSTEAD]
    assert profiled["a"]["head"].profile.tool == "torch"


def test_nothing_is_pinned_without_libcuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libcuda nothing is pinned in L2, so there is nothing to let go."""
    monkeypatch.setattr(clocks, "_driver", lambda: None)
    clocks._release_persisting_l2()


RECORDED = """{
  "fingerprint": {"device": "cuda", "gpu": "AMD Instinct MI300X", "gpu_memory_bytes": 205822885888, "gpu_power_limit_w": 750.0,
    "mig": "SPX", "driver": "6.12.12", "cuda": "HIP 6.4.43484", "torch": "2.9.0+rocm6.4", "cpu": "Some CPU"},
  "python": "3.12.3", "platform": "Linux 6.8, glibc 2.39", "ratchet": "0.1.0", "gpu_index": 1, "sm_clock_max_mhz": 2100,
  "l2_bytes": 4194304, "compute_capability": "gfx942:sramecc+:xnack-",
  "cards": [{"uuid": "29ff74a1-0000-1000-80f4-6e5d1d9bd4f9", "vbios": "022.040", "uncorrected_ecc": 2}]
}"""
"""The environment of a run on an AMD GPU, as an earlier release wrote it."""


def test_a_record_of_an_amd_gpu_can_be_read(tmp_path: Path) -> None:
    """It keeps its GPU, partition and toolkit; a toolkit of NVIDIA is called CUDA."""
    environment = Environment.model_validate_json(RECORDED, strict=True)
    save(tmp_path / "current.json", examples.run_record().model_copy(update={"environment": environment}))
    fingerprint = load(tmp_path / "current.json", RunRecord).environment.fingerprint
    assert (fingerprint.processor, fingerprint.mig, fingerprint.toolkit) == ("AMD Instinct MI300X", "SPX", "HIP 6.4.43484")
    assert fingerprint.key.startswith("amd-instinct-mi300x.")
    assert [Fingerprint(device="cuda", torch="2", cpu="c", cuda=cuda).toolkit for cuda in ("13.0", None)] == ["CUDA 13.0", ""]


def test_the_cpu_beside_such_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on the CPU with torch for ROCm names HIP in the place of CUDA, as it always did."""
    told = {"hip": "6.4.43484", "__version__": "2.9.0+rocm6.4"}
    monkeypatch.setattr("ratchet.core.device.environment.told_by_torch", told.get)
    assert describe(None, "cpu").fingerprint.cuda == "HIP 6.4.43484"
