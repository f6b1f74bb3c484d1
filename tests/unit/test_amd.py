"""AMD GPUs behind the seam, on a stand-in for amdsmi and on what torch on ROCm would list. Nothing here ran on such a GPU."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from ratchet import nvcc
from ratchet.commands import machine
from ratchet.commands.profile import sides
from ratchet.commands.request import DeviceChoice
from ratchet.config import Settings
from ratchet.errors import CudaBuildError, UnfitError, UsageError
from ratchet.judge.verdict import judge_run
from ratchet.measure import clocks, identity
from ratchet.measure.build import benchmark_environ
from ratchet.measure.device import amd, doctor, vendor
from ratchet.measure.device.amd import Amd, AmdGpu, ListedGpu, listed_by_torch, load_amdsmi
from ratchet.measure.device.environment import Answer, describe
from ratchet.measure.device.fitness import inspect, problems_before
from ratchet.measure.device.gpu import ComputeProcess, Gpu, Vendor
from ratchet.measure.device.nvml import Nvidia
from ratchet.measure.device.telemetry import Sampler
from ratchet.measure.device.vendor import vendor_here
from ratchet.measure.survey import SideTrace
from ratchet.measure.tree_spec import TreeSpec
from ratchet.profile.ncu import NcuOptions
from ratchet.records.baseline import Baseline
from ratchet.records.environment import Fingerprint
from ratchet.records.profile import Activity
from ratchet.report.markdown import render_markdown
from tests.examples import compared, run_of
from tests.fake_amdsmi import OLDER, FakeCard, amdsmi, violations

MI300X = ListedGpu("AMD Instinct MI300X", 205_822_885_888, "gfx942:sramecc+:xnack-", "0000:c1:00")
OTHER = ListedGpu("AMD Instinct MI300X", 205_822_885_888, "gfx942:sramecc+:xnack-", "0000:41:00")
ANY = DeviceChoice()
UNTESTED = "Untested on AMD hardware"


def vendor_with(listed: Sequence[ListedGpu] = (MI300X,), smi: ModuleType | None = None) -> Amd:
    """AMD where torch lists these GPUs, with or without amdsmi."""
    return Amd(lambda visible: listed, lambda: smi)


def chosen(card: FakeCard | None = None) -> AmdGpu:
    gpu = vendor_with(smi=amdsmi([card or FakeCard()])).choose_gpu(None, {})
    assert gpu is not None
    return gpu


@pytest.fixture
def rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The torch of this process says that it was built for ROCm; NVML's binding is not installed; amdsmi has one GPU."""
    monkeypatch.setattr(torch.version, "hip", "6.4.43484-123eb5128")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi([FakeCard()]))
    monkeypatch.setattr(vendor, "Amd", lambda: Amd(lambda visible: (MI300X,)))
    monkeypatch.setattr(machine, "installed_version", lambda name: "2.9.0+rocm6.4")


def test_both_vendors_offer_the_seam() -> None:
    """What implements the seam has its types, as mypy sees them."""
    vendors: tuple[Vendor, ...] = (Nvidia(), Amd())
    gpu: Gpu = chosen()
    assert [one.name for one in vendors] == ["NVIDIA", "AMD"]
    assert gpu.index == 0


def test_the_vendor_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says for whom it was built: the module where it is loaded, else its file."""
    assert vendor_here().name == "NVIDIA"
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert vendor_here().name == "AMD"
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(vendor, "told_by_torch", {"hip": "6.4"}.get)
    assert vendor_here().name == "AMD"
    monkeypatch.setattr(vendor, "told_by_torch", {"hip": None}.get)
    assert vendor_here().name == "NVIDIA"


def test_identity() -> None:
    """torch names the GPU, amdsmi adds driver, limits and the identity of the card, in bytes, watts and megahertz."""
    gpu = chosen()
    assert (gpu.name, gpu.memory_bytes, gpu.compute_capability) == (MI300X.name, MI300X.memory_bytes, MI300X.architecture)
    assert (gpu.uuid, gpu.driver, gpu.mig) == ("29ff74a1-0000-1000-80f4-6e5d1d9bd4f9", "6.12.12", "SPX")
    assert (gpu.power_limit_w, gpu.sm_clock_max_mhz) == (750.0, 2100)
    card = gpu.card()
    assert (card.uuid, card.vbios, card.uncorrected_ecc, card.problem) == (gpu.uuid, "022.040", 2, None)


def test_values() -> None:
    """What changes is asked each time: memory in bytes, activity as a fraction, the processes and which of them compute."""
    gpu = chosen()
    assert gpu.free_memory_bytes() == 196_000 * 2**20
    assert gpu.utilization() == 0.37
    assert gpu.uncorrected_ecc() == 2
    assert gpu.compute_processes() == [ComputeProcess(7, 2**30), ComputeProcess(8, 2**30)]
    assert gpu.busy_pids() == {7}
    assert problems_before(inspect(gpu, own={8}, pause=lambda _: None))[0].startswith(
        "PID 7 is computing on GPU 0 (uses 1.00 GiB)"
    )


def test_reading() -> None:
    """A reading has clocks in megahertz, degrees and watts, what slows the GPU down, and whether its power is capped."""
    reading = chosen().reading()
    assert (reading.sm_clock_mhz, reading.memory_clock_mhz, reading.temperature_c, reading.power_w) == (2050, 1300, 61, 612)
    assert (reading.slowdown, reading.power_capped) == ((), False)
    hot = FakeCard(answers={"amdsmi_get_violation_status": violations(hbm_thrm=True, ppt_pwr=True)})
    reading = chosen(hot).reading()
    assert (reading.slowdown, reading.power_capped) == (("memory too hot",), True)


@pytest.mark.parametrize(("current", "average"), [("N/A", 250), (0xFFFF_FFFF, 250), (250, "N/A")])
def test_power_of_older_gpus(current: Any, average: Any) -> None:
    """GPUs before the MI300 have an average power, and "N/A" or the largest number in the place of what they lack."""
    power = {"current_socket_power": current, "average_socket_power": average}
    assert chosen(FakeCard(answers={"amdsmi_get_power_info": power})).reading().power_w == 250


def test_clock_of_older_packages() -> None:
    """The clock had another name before ROCm 6.2."""
    clock = {OLDER["clk"]: 1700, "avg_clk": 1700, "min_clk": 500, "max_clk": 1700}
    assert chosen(FakeCard(answers={"amdsmi_get_clock_info": clock})).reading().sm_clock_mhz == 1700


@pytest.mark.parametrize("smi", [None, "refuses", "older"])
def test_nothing_supported(smi: str | None) -> None:
    """Without amdsmi, where a GPU supports nothing or the package lacks functions, facts are unknown and nothing raises."""
    module = amdsmi([FakeCard()]) if smi else None
    for name in [
        name for name in vars(module or object) if name.startswith("amdsmi_get_gpu_") or name.endswith(("_info", "_status"))
    ]:
        if name != "amdsmi_get_gpu_device_bdf":
            if smi == "older":
                delattr(module, name)
            else:
                setattr(module, name, refuse)
    gpu = vendor_with(smi=module).choose_gpu(None, {})
    assert gpu is not None
    assert (gpu.name, gpu.uuid, gpu.memory_bytes) == (MI300X.name, MI300X.pci, MI300X.memory_bytes)
    assert (gpu.driver, gpu.mig, gpu.power_limit_w, gpu.sm_clock_max_mhz) == (None,) * 4
    assert (gpu.free_memory_bytes(), gpu.utilization(), gpu.uncorrected_ecc()) == (None,) * 3
    assert (gpu.compute_processes(), gpu.busy_pids()) == ([], frozenset())
    reading = gpu.reading()
    assert (reading.sm_clock_mhz, reading.power_w, reading.slowdown, reading.power_capped) == (None, None, (), None)


def refuse(*_: Any) -> Any:
    raise amdsmi([]).AmdSmiLibraryException(2)


def test_telemetry() -> None:
    """A sampler sums up what such a GPU shows, as of any other."""
    with Sampler(chosen(), period_s=0.01) as sampler:
        sampler.look()
    telemetry = sampler.summary([(0.0, 1e12)], own_pids=(7, 8))
    assert (telemetry.sm_clock_mhz_median, telemetry.power_w_max, telemetry.temperature_c_max) == (2050, 612, 61)
    assert (telemetry.foreign_processes, telemetry.gpu_uuid) == (0, "29ff74a1-0000-1000-80f4-6e5d1d9bd4f9")


@pytest.mark.parametrize(
    ("environ", "addresses"),
    [
        ({}, ["0", "1"]),
        ({"HIP_VISIBLE_DEVICES": "3, 1"}, ["3", "1"]),
        ({"CUDA_VISIBLE_DEVICES": "3,1"}, ["3", "1"]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "2,0"}, ["2", "0"]),
        ({"HIP_VISIBLE_DEVICES": "1,2", "CUDA_VISIBLE_DEVICES": "0"}, ["1", "2"]),
        ({"ROCR_VISIBLE_DEVICES": "4,5"}, ["0", "1"]),
    ],
)
def test_hidden_gpus(environ: Mapping[str, str], addresses: list[str]) -> None:
    """A GPU is handed on by the entry of the variable that HIP reads, whose numbers count within ROCR_VISIBLE_DEVICES."""
    gpus = vendor_with((MI300X, OTHER)).visible_gpus(environ)
    assert [(gpu.address, gpu.index) for gpu in gpus] == [(address, number) for number, address in enumerate(addresses)]


def test_no_such_gpu() -> None:
    """A GPU that is not there is a usage error that names the variable that HIP reads."""
    with pytest.raises(UsageError, match="no GPU 1: there is 1 GPU, number 0, within HIP_VISIBLE_DEVICES='2'"):
        vendor_with().choose_gpu(1, {"HIP_VISIBLE_DEVICES": "2"})
    with pytest.raises(UsageError, match="no GPU 0: there is no usable AMD GPU on this machine"):
        vendor_with(()).choose_gpu(0, {})


def test_sensors_are_those_of_the_same_gpu() -> None:
    """amdsmi numbers GPUs in an order of its own: it is asked about the one at the same PCI address, or not at all."""
    far, near = FakeCard("0000:c1:00.0", {"amdsmi_get_temp_metric": 80}), FakeCard("0000:41:00.0", {"amdsmi_get_temp_metric": 40})
    gpus = vendor_with((OTHER, MI300X), amdsmi([far, near])).visible_gpus({})
    assert [gpu.reading().temperature_c for gpu in gpus] == [40, 80]
    parts = amdsmi([FakeCard("0000:c1:00.0"), FakeCard("0000:c1:00.1")])
    (part,) = vendor_with((MI300X,), parts).visible_gpus({})
    assert part.reading().temperature_c is None
    older = ListedGpu("AMD Instinct MI210", 64 * 2**30, "gfx90a", None)  # a torch that does not tell where its GPUs are
    assert vendor_with((older,), amdsmi([FakeCard()])).visible_gpus({})[0].reading().temperature_c == 61
    unknown = vendor_with((older, older), amdsmi([far, near])).visible_gpus({"HIP_VISIBLE_DEVICES": "5,6"})
    assert [(gpu.reading().temperature_c, gpu.uuid) for gpu in unknown] == [(None, "AMD-5"), (None, "AMD-6")]


def test_amdsmi_that_is_not_usable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Where it is not installed, misses its library (it prints that, and raises KeyError) or finds no driver, nobody asks it."""
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert load_amdsmi() is None
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi([FakeCard()], init_error=34))
    assert load_amdsmi() is None
    ready = amdsmi([FakeCard()])
    monkeypatch.setitem(sys.modules, "amdsmi", ready)
    assert load_amdsmi() is ready
    monkeypatch.delitem(sys.modules, "amdsmi")
    (tmp_path / "amdsmi.py").write_text("print('Unable to find libamd_smi.so library')\n{}['libamd_smi.so']\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert load_amdsmi() is None
    assert capsys.readouterr().out == ""


def test_torch_lists_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is asked in a process that sees what the caller's variables show; a torch that does not start has no GPU."""
    seen: list[Mapping[str, str]] = []
    answers = [
        Answer(0, '{"gpus": [{"name": "MI\\u001b300X", "memory_bytes": 9, "architecture": "gfx942", "pci": [0, 193, 0]}]}\n'),
        Answer(0, 'a warning\n{"gpus": [{"name": "a", "memory_bytes": 9, "architecture": "gfx90a", "pci": [null, null, null]}]}'),
        Answer(1, "", "ImportError: libamdhip64.so"),
    ]

    def ask(command: Sequence[str], timeout_s: float, environ: Mapping[str, str]) -> Answer:
        seen.append(environ)
        return answers.pop(0)

    monkeypatch.setattr(amd, "ask", ask)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    listed_by_torch.cache_clear()
    (one,) = listed_by_torch((("HIP_VISIBLE_DEVICES", "2"),))
    assert (one.name.startswith("MI"), "\x1b" in one.name, one.pci) == (True, False, "0000:c1:00")
    assert (seen[0]["HIP_VISIBLE_DEVICES"], "CUDA_VISIBLE_DEVICES" in seen[0]) == ("2", False)
    assert listed_by_torch(())[0].pci is None
    assert listed_by_torch((("HIP_VISIBLE_DEVICES", "-1"),)) == ()
    listed_by_torch.cache_clear()


@pytest.mark.usefixtures("rocm")
def test_choice() -> None:
    """A run takes such a GPU, and says first that nobody has tested this."""
    device, gpu, (warning,) = machine.choose(ANY, Settings(), {"HIP_VISIBLE_DEVICES": "3"})
    assert (device, gpu and gpu.address, gpu and gpu.name) == ("cuda", "3", MI300X.name)
    assert machine.Machine(device, gpu).peaks is None  # its caches are not those of the datasheets that ratchet has
    assert warning.startswith(UNTESTED)


@pytest.mark.usefixtures("rocm")
def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an AMD GPU the CPU is measured, or the sentence names whose GPU was looked for."""
    monkeypatch.setattr(vendor, "Amd", lambda: vendor_with(()))
    device, gpu, (warning,) = machine.choose(ANY, Settings(), {})
    assert (device, gpu) == ("cpu", None)
    assert warning.startswith("Measured on the CPU, since no AMD GPU was found here")
    with pytest.raises(UnfitError, match="no AMD GPU was found here"):
        machine.choose(ANY, Settings(device="cuda"), {})


@pytest.mark.usefixtures("rocm")
def test_a_process_sees_one_gpu(tmp_path: Path) -> None:
    """A host gets the variable of HIP, which wins over CUDA's; on the CPU it hides all, for which HIP takes no empty value."""
    for address, value in (("3", "3"), (None, "-1")):
        device = "cuda" if address else "cpu"
        tree = TreeSpec.of(Settings(), tmp_path, checkout=tmp_path, device=device, gpu_uuid=address)
        seen = benchmark_environ({"CUDA_VISIBLE_DEVICES": "5", "ROCR_VISIBLE_DEVICES": "0,1,2,3"}, tree)
        assert (seen["HIP_VISIBLE_DEVICES"], seen["ROCR_VISIBLE_DEVICES"]) == (value, "0,1,2,3")
        assert "CUDA_DEVICE_ORDER" not in seen


@pytest.mark.usefixtures("rocm")
def test_nvcc_compiles_nothing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number that torch on ROCm gives for an architecture is none of NVIDIA's."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(CudaBuildError, match="no CUDA device to compile for"):
        nvcc.device_arch()


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record names HIP in the place of CUDA, and the driver of AMD."""
    told = {"hip": "6.4.43484", "__version__": "2.9.0+rocm6.4"}
    monkeypatch.setattr("ratchet.measure.device.environment.told_by_torch", told.get)
    environment = describe(chosen(), "cuda", l2_bytes=4 * 2**20)
    fingerprint = environment.fingerprint
    assert (fingerprint.gpu, fingerprint.cuda, fingerprint.driver) == (MI300X.name, "HIP 6.4.43484", "6.12.12")
    assert (environment.compute_capability, environment.cards[0].vbios) == (MI300X.architecture, "022.040")
    assert [Fingerprint(device="cuda", torch="2", cpu="c", cuda=cuda).toolkit for cuda in (fingerprint.cuda, "13.0", None)] == [
        "HIP 6.4.43484",
        "CUDA 13.0",
        "",
    ]
    assert fingerprint.key.startswith("amd-instinct-mi300x.")


@pytest.mark.usefixtures("rocm")
def test_every_case_is_timed() -> None:
    """Nothing is captured and no driver is looked for: the reason is the vendor's, and the process stays usable."""
    found = identity.of(lambda: pytest.fail("it was called"), Path(), "cuda")
    assert (found.digest, found.opaque, found.spent) == ("", "on AMD GPUs neither launches nor machine code are compared", False)


@pytest.mark.usefixtures("rocm")
def test_profiles_have_no_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile is what torch.profiler saw, with a sentence that says why; ncu is not started, were it there."""
    monkeypatch.setattr("ratchet.profile.ncu.find_ncu", lambda environ: pytest.fail("it was looked for"))
    tree = TreeSpec.of(Settings(), tmp_path, checkout=tmp_path, device="cuda", gpu_uuid="0")
    activity = Activity(calls=1, wall_s=1.0, kernels={"rocblas_gemm": 0.5}, launches=1)
    request = sides.ProfileRequest({"head": tree}, 1, {}, tmp_path, sides.TimeBudget(10))
    profiled = sides.profile_sides(request, {"a": NcuOptions()}, {"a": {"head": SideTrace(activity, None)}})
    assert profiled["a"]["head"].steps_down == ["ratchet reads no counters on AMD GPUs: ncu is NVIDIA's.", sides.INSTEAD]
    assert profiled["a"]["head"].profile is not None
    assert profiled["a"]["head"].profile.tool == "torch"


def test_the_report_says_it() -> None:
    """Whoever reads a report learns that this is untested, and why a case was timed."""
    case = compared(*([1.0] * 6), opaque=Amd.no_machine_code)
    shown = render_markdown(judge_run(run_of(case, warnings=(Amd.warning,)), Baseline()))
    assert UNTESTED in shown
    assert Amd.no_machine_code in shown


def test_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libcuda nothing is pinned in L2; the clock that needs events within a graph says that ROCm has none."""
    monkeypatch.setattr(clocks, "_driver", lambda: None)
    clocks._release_persisting_l2()
    assert clocks.persisting_l2_bytes() == 0
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with pytest.raises(RuntimeError, match="choose another clock than cold-graph"):
        clocks.ColdGraphClock(lambda: None)


@pytest.mark.parametrize("smi", [amdsmi([FakeCard()]), None])
def test_doctor(smi: ModuleType | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says that this is untested, what is not there, and does not ask for NVIDIA's tools."""
    monkeypatch.setattr(doctor, "check_torch", lambda python: doctor.Check("torch", "ok", "2.9"))
    checks = {check.name: check for check in doctor.examine(tmp_path, None, vendor=vendor_with(smi=smi))}
    driver = "6.12.12" if smi else "unknown"
    assert checks["GPU"].detail == f"GPU 0: AMD Instinct MI300X, 192 GiB, driver {driver}"
    assert checks["AMD"].state == "warning"
    assert checks["AMD"].detail.startswith(UNTESTED)
    assert checks["sensors"].state == ("ok" if smi else "warning")
    assert checks["counters"].detail.startswith("ratchet reads no counters on AMD GPUs")
    assert not {"ncu", "nvcc"} & set(checks)


def test_doctor_on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch on ROCm is no torch without a GPU."""
    told = '{"version": "2.9.0+rocm6.4", "cuda": null, "hip": "6.4.43484", "gpu": %s}'
    monkeypatch.setattr(doctor, "installed_version", lambda name: "2.9.0")
    monkeypatch.setattr(doctor, "ask", lambda *_, **__: Answer(0, told % '"AMD Instinct MI300X"'))
    assert doctor.check_torch(Path("python")).detail == "2.9.0+rocm6.4 for HIP 6.4.43484, sees AMD Instinct MI300X"
    monkeypatch.setattr(doctor, "ask", lambda *_, **__: Answer(0, told % "null"))
    check = doctor.check_torch(Path("python"))
    assert (check.state, check.cure.endswith("look at HIP_VISIBLE_DEVICES.")) == ("warning", True)
