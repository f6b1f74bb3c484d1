"""How a call is captured and what is concluded from it, with a stand-in for the GPU. tests/gpu has the same on a real one."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ratchet.identical import launches as identity
from ratchet.identical.launches.driver import Driver
from ratchet.identical.launches.record import Launches, Node

pytestmark = pytest.mark.no_cover

GEMM = Node("kernel", "nvjet_hsh_128x256", (4, 1, 1, 128, 1, 1, 0), function=1)


class Gpu(Driver):
    """Remembers what is launched while a capture is on, and how long what is not captured takes."""

    def __init__(self) -> None:
        super().__init__("libc.so.6")
        self.capturing: list[Node] | None = None
        self.graphs: list[list[Node]] = []
        self.on_stream = False
        self.stray_ms = 0.0
        self.awake = False
        """The host is so slow that no sleep covers it."""
        self.collected: list[bool] = []
        self.allocator_events: list[dict[str, object]] = []

    def launch(self, node: Node = GEMM) -> None:
        self.collected.append(gc.isenabled())
        if self.capturing is not None:
            self.capturing.append(node)

    def launch_elsewhere(self) -> None:
        """On a stream that takes no part in the capture."""
        self.stray_ms += 0.005

    def blocking_stream(self) -> int:
        return 0x11

    def module(self, function: int) -> int:
        return 0x22

    def settings(self, stream: int) -> list[object]:
        return [stream]


class Event:
    def __init__(self, gpu: Gpu) -> None:
        assert gpu.capturing is None, "no event is made within a capture"
        self._gpu = gpu

    def record(self) -> None:
        self.at_ms = self._gpu.stray_ms

    def query(self) -> bool:
        return self._gpu.awake

    def elapsed_time(self, end: Event) -> float:
        return 0.001 + end.at_ms - self.at_ms


class Graph:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        assert (self._gpu.on_stream, pool, capture_error_mode) == (True, (0, 1), "global")
        self._gpu.capturing = []

    def capture_end(self) -> None:
        assert self._gpu.capturing is not None
        self._gpu.graphs.append(self._gpu.capturing)
        self._number = len(self._gpu.graphs) - 1
        self._gpu.capturing = None

    def raw_cuda_graph(self) -> int:
        return self._number


def torch_cuda(gpu: Gpu) -> SimpleNamespace:
    """As much of ``torch.cuda`` as a capture needs, with this GPU behind it."""

    @contextlib.contextmanager
    def stream(_: object) -> Iterator[None]:
        gpu.on_stream = True
        try:
            yield
        finally:
            gpu.on_stream = False

    return SimpleNamespace(
        Event=lambda enable_timing: Event(gpu),
        CUDAGraph=lambda keep_graph: Graph(gpu),
        stream=stream,
        synchronize=lambda: None,
        ExternalStream=lambda handle: handle,
        graph_pool_handle=lambda: (0, 1),
        current_device=lambda: 0,
        current_stream=lambda: SimpleNamespace(cuda_stream=0),
        get_device_capability=lambda: (9, 0),
        memory_snapshot=list,
        memory=SimpleNamespace(
            _record_memory_history=lambda *_, **__: None, _snapshot=lambda: {"device_traces": [gpu.allocator_events]}
        ),
        _sleep=lambda cycles: None,
    )


class Reader:
    """Reads graphs as this GPU keeps them."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def launches(self, number: int) -> Launches:
        return Launches(tuple(self._gpu.graphs[number]), ())


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setattr(torch, "cuda", torch_cuda(made))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    monkeypatch.setattr(identity, "_driver", lambda: made)
    monkeypatch.setattr(identity, "LaunchReader", Reader)
    monkeypatch.setattr(identity, "Contents", lambda *_: SimpleNamespace(sums=lambda ranges: [(0,) for _ in ranges]))
    return made


def of(gpu: Gpu, call: Callable[[], object], tree: Path = Path("/nowhere")) -> identity.Identity:
    found = identity.of(call, tree, "cuda")
    assert not gpu.on_stream
    assert gc.isenabled()
    return found


def test_equal_launches_are_one_identity(gpu: Gpu) -> None:
    """A workload that launches the same has the same digest again; one launch more is another."""
    found = of(gpu, gpu.launch)
    assert found.digest == of(gpu, gpu.launch).digest
    assert found.launches == ("nvjet_hsh_128x256 grid (4, 1, 1) block (128, 1, 1)",)
    assert not found.spent
    assert of(gpu, lambda: [gpu.launch(), gpu.launch()]).digest not in ("", found.digest)
    assert not any(gpu.collected)


def in_turns(gpu: Gpu) -> Callable[[], object]:
    turns = itertools.cycle(("nvjet_two", "nvjet_one"))
    return lambda: gpu.launch(Node("kernel", next(turns), function=1))


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda gpu: lambda: [gpu.launch(), gpu.launch_elsewhere()], "stream of its own"),
        (in_turns, "two calls of it do not launch the same: launch 1 of 1 (nvjet_t"),
        (lambda gpu: lambda: None, "a CUDA graph sees no launch of it"),
        (lambda gpu: lambda: gpu.launch(Node("kernel", "made_as_it_ran", function=2)), "the code of made_as_it_ran was found no"),
    ],
    ids=["a launch that no graph holds", "kernels in turns", "no launch", "code that is nowhere"],
)
def test_what_is_not_known_is_opaque(gpu: Gpu, call: Callable[[Gpu], Callable[[], object]], why: str) -> None:
    """A call that cannot be known whole, beside launches that are captured too, says why, and spends no process."""
    found = of(gpu, call(gpu))
    assert why in found.opaque
    assert not found.spent


def test_a_slow_host_is_opaque(gpu: Gpu) -> None:
    """Where the GPU cannot sleep as long as a call takes to queue, what it does meanwhile is not known."""
    gpu.awake = True
    assert of(gpu, gpu.launch).opaque == "its launches take too long to queue"


def test_a_capture_that_fails_is_opaque_and_spends_the_process(gpu: Gpu) -> None:
    """An error within a capture is told, and the process is not used again; one before it too."""

    def synchronises() -> None:
        if gpu.capturing is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    found = of(gpu, synchronises)
    assert found.opaque == (
        "a CUDA graph cannot hold its launches (RuntimeError: CUDA error: operation not permitted when stream is capturing)"
    )
    assert found.spent
    assert gpu.capturing is None
    assert of(gpu, lambda: 1 // 0).opaque.startswith("looking at its launches failed: ZeroDivisionError")
