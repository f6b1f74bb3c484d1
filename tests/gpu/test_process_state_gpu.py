"""On a GPU one worker takes case after case: most leave nothing, and what others leave is restored or ends the worker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from ratchet.core.bench.client import HostClient, Hosts, WorkerClient  # noqa: E402  as above
from ratchet.core.bench.messages import (  # noqa: E402  as above
    BuiltCase,
    Identified,
    KernelTimes,
    Restored,
    Sampled,
)
from ratchet.core.bench.tree_spec import TreeSpec  # noqa: E402  as above
from ratchet.core.config import Settings  # noqa: E402  after the skip
from ratchet.core.device.vendor import vendor_here  # noqa: E402  as above
from ratchet.explain.traces import Traced  # noqa: E402  as above

ORDINARY = {
    "matmul": "x = torch.randn(256, 256, device=device)\n    return lambda: x @ x",
    "graph": "x = torch.randn(4096, device=device)\n    return Workload(run=lambda: x + 1, clock='graph')",
    "convolution": (
        "c, x = torch.nn.Conv2d(4, 4, 3, device=device), torch.randn(1, 4, 32, 32, device=device)\n"
        "    return lambda: c(x).detach()"
    ),
    "attention": (
        "q = torch.randn(1, 2, 64, 32, device=device, dtype=torch.float16)\n"
        "    return lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)"
    ),
    "training": (
        "m = torch.nn.Linear(64, 64, device=device)\n    o = torch.optim.AdamW(m.parameters())\n"
        "    x = torch.randn(8, 64, device=device)\n\n    def run():\n        o.zero_grad()\n        m(x).sum().backward()\n"
        "        o.step()\n\n    return Workload(run=run, mutates=(m, o))"
    ),
    "compiled": "x, f = torch.randn(4096, device=device), torch.compile(lambda x: x.sin() + 1)\n    return lambda: f(x)",
    "streams": (
        "x, s = torch.randn(4096, device=device), torch.cuda.Stream()\n\n    def run():\n"
        "        s.wait_stream(torch.cuda.current_stream())\n        with torch.cuda.stream(s):\n            y = x + 1\n"
        "        torch.cuda.current_stream().wait_stream(s)\n        return y\n\n    return run"
    ),
}
LEAKS = {
    "gradients": ("torch.set_grad_enabled(False)", "grad_enabled"),
    "tf32": ("torch.backends.cuda.matmul.allow_tf32 = True", "cublas_allow_tf32"),
    "cudnn": ("torch.backends.cudnn.benchmark = True", "cudnn_benchmark"),
    "stream": ("torch.cuda.set_stream(torch.cuda.Stream())", "current stream"),
    "synchronous": ("torch.cuda.set_sync_debug_mode('warn')", "sync debug mode"),
    "limit": ("torch.backends.cudnn.benchmark_limit = 3", "cudnn.benchmark_limit"),
    "memory": ("KEPT.append(torch.ones(1 << 20, device=device))", "memory of the GPU"),
    "function": ("torch.nn.functional.relu = torch.nn.functional.gelu", "relu"),
    "heap": (
        "import ctypes; torch.ones(1, device=device); ctypes.CDLL('libcuda.so.1').cuCtxSetLimit(2, ctypes.c_size_t(64 << 20))",
        "settings of the context and the stream",
    ),
}


def bench_file() -> str:
    functions = ["import torch\nfrom ratchet import Workload, benchmark\n\nKEPT = []\n"]
    bodies = ORDINARY | {
        name: f"{leak}\n    x = torch.ones(64, device=device)\n    return lambda: x + 1" for name, (leak, _) in LEAKS.items()
    }
    functions += [f"@benchmark(devices=('cuda',))\ndef {name}(device):\n    {body}\n" for name, body in bodies.items()]
    return "\n\n".join(functions)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostClient]:
    folder = tmp_path_factory.mktemp("host")
    gpu = vendor_here().choose_gpu(None, os.environ)
    assert gpu
    (folder / "bench").mkdir()
    (folder / "bench" / "all.py").write_text(bench_file(), encoding="utf-8")
    spec = TreeSpec.of(Settings(), folder, checkout=folder, device="cuda", gpu_uuid=gpu.address)
    with Hosts({"head": spec}, os.environ) as hosts:
        hosts.sides["head"].listing()
        yield hosts.sides["head"]


def prepare(worker: WorkerClient, name: str) -> None:
    settings = {"seed": 7, "clock": "auto", "cache": "cold", "placements": 2}
    worker.ask("prepare", BuiltCase, case=f"{name}/default", check=True, **settings)


def test_ordinary_cases_leave_nothing(host: HostClient) -> None:
    """One worker prepares, times, traces and identifies cases of all kinds, and none of them is named or ends it."""
    worker = host.fork(with_compiler=True)
    worker.timeout_s = 300
    left: dict[str, Restored] = {}
    for name in (*ORDINARY, *ORDINARY):
        prepare(worker, name)
        worker.ask("block", Sampled, samples=3, place=0)
        worker.ask("kernels", KernelTimes, samples=2)
        worker.ask("trace", Traced)
        spent = worker.ask("identify", Identified).spent
        restored = worker.ask("restore", Restored)
        if restored.changed or restored.spent:
            left[name] = restored
        if spent or restored.spent:
            worker.end()
            worker = host.fork(with_compiler=True)
            worker.timeout_s = 300
    worker.end()
    assert left == {}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_named_and_over(host: HostClient, name: str) -> None:
    """What a case leaves is named; the worker takes another case, which leaves nothing, or is spent."""
    worker = host.fork()
    answers = []
    for case in ("matmul", name, "matmul"):
        prepare(worker, case)
        answers.append(worker.ask("restore", Restored))
        if answers[-1].spent:
            break
    worker.end()
    before, found, *after = answers
    assert before == Restored(changed=(), spent=False)
    assert any(named.startswith(LEAKS[name][1]) for named in found.changed), found
    assert after == ([] if found.spent else [before])
