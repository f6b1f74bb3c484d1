"""`ratchet` where torch was built for ROCm: a stand-in for that torch, and one for amdsmi. No GPU takes part.

The times come from a file (as in test_harness), so what is real here is all around them: which GPU is chosen and shown to the
processes, that it is watched, and what record, report and terminal say.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ratchet.records.verdict import Outcome
from tests.integration.playground import Finished, Playground, new_repository, only_json
from tests.integration.test_harness import times

TORCH = {
    "__init__.py": "from torch import cuda, version\n__version__ = version.__version__\n",
    "version.py": '__version__ = "2.9.0+rocm6.4"\nhip: str = "6.4.43484-123eb5128"\ncuda = None\n',
    "cuda.py": """
import os, types
def device_count():
    return len(os.environ.get("HIP_VISIBLE_DEVICES", "0,1,2,3").split(","))
def is_available():
    return True
def get_device_name(number):
    return "AMD Instinct MI300X"
def get_device_properties(number):
    bus = 0x10 * int(os.environ.get("HIP_VISIBLE_DEVICES", "0,1,2,3").split(",")[number])
    place = {"pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0}
    return types.SimpleNamespace(name=get_device_name(number), total_memory=192 * 2**30, gcnArchName="gfx942", **place)
""",
}
AMDSMI = """
from tests.fake_amdsmi import FakeCard, amdsmi
idle = {"amdsmi_get_gpu_process_list": [], "amdsmi_get_gpu_activity": {"gfx_activity": 0, "umc_activity": 0, "mm_activity": 0}}
idle |= {"amdsmi_get_gpu_total_ecc_count": {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0}}
cards = [
    FakeCard(f"0000:{number}0:00.0", idle | {"amdsmi_get_gpu_vbios_info": {"version": str(number)}}) for number in (3, 2, 1, 0)
]
globals().update({name: value for name, value in vars(amdsmi(cards)).items() if not name.startswith("__")})
"""
LOGGED = "sh -c 'echo $HIP_VISIBLE_DEVICES >> $HARNESS_LOG; cp times.json $0' {out}"


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    """A repository on a machine with four GPUs of AMD."""
    folder = tmp_path_factory.mktemp("rocm")
    for place, text in ({"amdsmi.py": AMDSMI} | {f"torch/{name}": text for name, text in TORCH.items()}).items():
        (folder / "packages" / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / "packages" / place).write_text(text, encoding="utf-8")
    play = Playground(folder)
    new_repository(play.repo, {"times.json": times(copy=0.5)})
    play.commit({"a": "b"})
    return play


def ratchet(play: Playground, *words: str) -> Finished:
    environ = play.environ()
    path = os.pathsep.join([str(play.folder / "packages"), environ["PYTHONPATH"]])
    more = {"PYTHONPATH": path, "HIP_VISIBLE_DEVICES": "1,3", "HARNESS_LOG": str(play.folder / "log")}
    return play.finish(play.start(*words, env=more))


@pytest.fixture(scope="module")
def checked(rocm: Playground) -> Finished:
    return ratchet(rocm, "check", "--gpu", "1", "--pairs", "6", "--command", LOGGED, "--format", "json")


@pytest.mark.slow
def test_a_check_goes_through_the_seam(checked: Finished, rocm: Playground) -> None:
    """The verdict is that of any GPU; the chosen one alone is shown to the processes, and amdsmi was asked about that one."""
    assert checked.code == 0, checked
    assert checked.outcomes() == {"copy/default": Outcome.UNCHANGED}
    assert set(Path(rocm.folder / "log").read_text().split()) == {"3"}
    environment = checked.run.environment
    assert (environment.fingerprint.gpu, environment.fingerprint.driver) == ("AMD Instinct MI300X", "6.12.12")
    assert environment.fingerprint.cuda == "HIP 6.4.43484-123eb5128"
    (card,) = environment.cards
    assert (card.vbios, environment.sm_clock_max_mhz, environment.compute_capability) == ("3", 2100, "gfx942")


def test_everything_says_that_this_is_untested(checked: Finished, rocm: Playground) -> None:
    """Terminal, report, record and doctor say so, each where one looks first."""
    untested = "Untested on AMD hardware"
    assert untested in checked.err + checked.out
    assert untested in checked.markdown
    assert any(warning.startswith(untested) for warning in checked.report.warnings)
    done = ratchet(rocm, "doctor", "--json")
    checks = {check["name"]: check for check in only_json(done.out)}
    assert checks["torch"]["detail"] == "2.9.0+rocm6.4 for HIP 6.4.43484-123eb5128, sees AMD Instinct MI300X"
    assert checks["GPU"]["detail"] == "GPU 0: AMD Instinct MI300X, 192 GiB, driver 6.12.12"
    assert checks["AMD"]["detail"].startswith(untested)
    assert checks["sensors"]["state"] == "ok"
