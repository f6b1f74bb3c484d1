"""What modules may ask about the GPU while a host imports them."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.no_cover

torch = pytest.importorskip("torch")

from ratchet.core.bench.wire import Channel  # noqa: E402  likewise
from ratchet.gpu_libraries.gpu_facts import cuda_has_begun, facts_for_imports  # noqa: E402  likewise


class Uuid:
    def __str__(self) -> str:
        return "GPU-0"


TRITON = {
    "triton/__init__.py": "",
    "triton/backends/__init__.py": "",
    "triton/backends/driver.py": """
import torch

class Utils:
    def get_device_properties(self, device):
        import os
        return {"multiprocessor_count": 132, "pid": os.getpid()}

class GPUDriver:
    def __init__(self):
        self.get_current_device = torch.cuda.current_device

class CudaDriver(GPUDriver):
    def __init__(self):
        self.utils = Utils()
        super().__init__()
""",
    "triton/runtime/__init__.py": """
from types import SimpleNamespace
from triton.backends.driver import CudaDriver
driver = SimpleNamespace(active=CudaDriver())
""",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A GPU that torch knows; the processes that asked torch itself."""
    here: list[int] = []

    def properties(device: object = None) -> SimpleNamespace:
        here.append(os.getpid())
        if device == 7:
            raise AssertionError("Invalid device id")
        return SimpleNamespace(major=9, minor=0, name="GPU of a test", multi_processor_count=132, pid=os.getpid(), uuid=Uuid())

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    return here


@pytest.fixture
def channel() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    yield Channel(ours)
    ours.close()
    theirs.close()


def test_questions_of_torch_are_answered_elsewhere(asked: list[int], channel: Channel, tmp_path: Path) -> None:
    """Capability, name and properties come from another process, once; afterwards this process answers itself again."""
    with facts_for_imports(tmp_path, channel) as use:
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_name(0) == "GPU of a test"
        found = torch.cuda.get_device_properties(torch.device("cuda:0"))
        assert found.multi_processor_count == 132
        assert found.pid not in (os.getpid(), None)
        assert torch.cuda.current_device() == 0
        assert found.uuid == "GPU-0"  # no plain value: as text
        kept = torch.cuda.get_device_properties
    assert asked == []
    assert use.where == ""
    assert torch.cuda.get_device_capability() == (9, 0)
    assert kept(0).pid == os.getpid()
    assert asked == [os.getpid()] * 2


def test_what_a_question_raises_is_raised_here(asked: list[int], channel: Channel, tmp_path: Path) -> None:
    """A device that does not exist is refused by torch's own words, and the next question is answered."""
    with facts_for_imports(tmp_path, channel):
        with pytest.raises(AssertionError, match="Invalid device id"):
            torch.cuda.get_device_properties(7)
        assert torch.cuda.get_device_properties(0).name == "GPU of a test"


def test_no_answer_is_an_error_that_a_package_can_catch(
    asked: list[int], channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where asking ends the process that is asked, as a broken driver may, the question raises RuntimeError."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: os._exit(1))
    with facts_for_imports(tmp_path, channel), pytest.raises(RuntimeError, match="CUDA does not answer"):
        torch.cuda.get_device_properties(0)


def test_the_process_that_answers_ends_with_the_imports(asked: list[int], channel: Channel, tmp_path: Path) -> None:
    """Also where an import fails, nothing stays behind and torch is as it was."""
    before = torch.cuda.get_device_properties
    pids = []

    def imports() -> None:
        with facts_for_imports(tmp_path, channel):
            pids.append(torch.cuda.get_device_properties().pid)
            raise ImportError

    with pytest.raises(ImportError):
        imports()
    assert torch.cuda.get_device_properties is before
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.parametrize("imported", ["before", "meanwhile"])
def test_triton_asks_too(
    imported: str, asked: list[int], channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver object of Triton gets its properties from elsewhere too, and is the original's again afterwards."""
    for name, text in TRITON.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    if imported == "before":
        importlib.import_module("triton.backends.driver")
    current = torch.cuda.current_device
    try:
        with facts_for_imports(tmp_path, channel):
            driver = importlib.import_module("triton.runtime").driver.active
            found = driver.utils.get_device_properties(0)
            assert found["multiprocessor_count"] == 132
            assert found["pid"] != os.getpid()
            assert driver.get_current_device() == 0
            kept = driver.utils.get_device_properties
        assert kept(0)["pid"] == os.getpid()
        assert driver.utils.get_device_properties(0)["pid"] == os.getpid()
        assert driver.get_current_device is current
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
            del sys.modules[name]


def test_who_begins_cuda_is_named(asked: list[int], channel: Channel, tmp_path: Path) -> None:
    """Work on the GPU has no answer: the file and line of the tree that started it are noted."""
    (tmp_path / "kernels.py").write_text("import torch\n\ntorch.cuda._lazy_init()\n", encoding="utf-8")
    with facts_for_imports(tmp_path, channel) as use:
        exec(compile((tmp_path / "kernels.py").read_text(encoding="utf-8"), str(tmp_path / "kernels.py"), "exec"), {})
    assert use.where == "kernels.py:3"


def test_no_gpu_has_begun_here() -> None:
    """Without a driver in this process CUDA has not begun."""
    assert not cuda_has_begun()
