"""This repository's own benchmarks, on a GPU: right before they are timed."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ratchet import Workload
from ratchet.core.bench.child.calls import TimedCall
from ratchet.core.bench.child.correctness import check
from ratchet.core.bench.child.registry import discover
from ratchet.core.bench.child.worker import make_clock
from ratchet.core.errors import CudaBuildError
from ratchet.lab.variants import SHIPPED
from ratchet.nvcc import find_nvcc

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

ROOT = Path(__file__).parents[2]
LIMIT = {"bfloat16": 1e-2, "float32": 1e-5}
CASES = [
    *(("attention", config) for config in ("training_512", "training_1k", "inference_2k", "inference_4k")),
    *(("normalize", config) for config in ("rows_1k", "rows_4k", "rows_8k", "rows_16k")),
    *(("matmul", config) for config in ("square_2048", "square_4096")),
    ("copy", "mib_256"),
]
ATTENTION_TUNINGS = [
    (64, 32, 2, 4),
    (64, 64, 3, 4),
    (64, 128, 2, 8),
    (128, 32, 3, 8),
    (128, 64, 2, 8),
    (128, 64, 4, 8),
    (128, 128, 2, 8),
    (32, 256, 1, 4),
    (256, 32, 5, 16),
    (64, 256, 1, 16),
]


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "bench"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This repository's bench folder is the one that `bench` names, whatever another test imported."""
    monkeypatch.syspath_prepend(ROOT)
    _forget()
    torch.manual_seed(7)
    yield
    _forget()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def _build(name: str, **parameters: Any) -> Workload:
    if name == "attention":
        pytest.importorskip("triton")
    if name == "normalize":
        try:
            find_nvcc()
        except CudaBuildError as error:
            pytest.skip(error.message)
    made = getattr(importlib.import_module(f"bench.{name}"), name)
    if "config" in parameters:
        parameters = made.configs["cuda"][parameters["config"]]
    workload = made(device=torch.device("cuda"), **parameters)
    assert isinstance(workload, Workload)
    return workload


def _error(workload: Workload, **tuning: int) -> float:
    """‖out − ref‖ / ‖ref‖ of a second call into poisoned outputs."""
    assert workload.reference
    reference = workload.reference()
    workload.run(**tuning).fill_(float("nan"))
    out = workload.run(**tuning)
    return float((out.double() - reference).norm() / reference.norm())


def test_every_gpu_config_is_listed() -> None:
    """The cases of this file are all the GPU cases of the folder."""
    listed = []
    for name in ("attention", "normalize", "matmul", "copy"):
        made = getattr(importlib.import_module(f"bench.{name}"), name)
        listed += [(name, config) for config in made.configs["cuda"]]
    assert listed == CASES


@pytest.mark.parametrize(("name", "config"), CASES)
def test_gpu_config_agrees_with_its_reference(name: str, config: str) -> None:
    """Every GPU config agrees with its float64 reference in relative norm."""
    workload = _build(name, config=config)
    assert workload.dtype
    limit = workload.tolerance.get(workload.dtype, LIMIT[workload.dtype])
    assert _error(workload, **workload.tuning) <= limit


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("tuning", ATTENTION_TUNINGS, ids=str)
def test_attention_tunings_agree(head_dim: int, tuning: tuple[int, int, int, int]) -> None:
    """Attention is right for any tuning, also where the sequence is no multiple of the blocks."""
    chosen = dict(zip(("BLOCK_M", "BLOCK_N", "NUM_STAGES", "NUM_WARPS"), tuning, strict=True))
    for seq in (512, 333):
        workload = _build("attention", batch=2, heads=3, seq=seq, head_dim=head_dim)
        assert _error(workload, **chosen) <= LIMIT["bfloat16"]


@pytest.mark.parametrize("block", [64, 1024])
@pytest.mark.parametrize(("lanes", "rows", "stream"), [(32, 1, 0), (32, 2, 1), (16, 1, 0), (8, 4, 1)])
@pytest.mark.parametrize("columns", [4, 100, 128, 132, 1024, 2048])
def test_normalize_tunings_agree(block: int, lanes: int, rows: int, stream: int, columns: int) -> None:
    """Normalisation is right for any tuning, also where rows do not fill the last block nor columns the last vectors."""
    workload = _build("normalize", rows=1021, columns=columns)
    tuning = {"BLOCK": block, "LANES": lanes, "ROWS": rows, "STREAM": stream}
    assert _error(workload, **tuning) <= LIMIT["float32"]


def test_normalize_keeps_its_digits_far_from_zero() -> None:
    """A mean a thousand times the deviation costs the result no more than the rounding of its inputs allows."""
    module = importlib.import_module("bench.normalize")
    _build("normalize", rows=1, columns=1024)  # skips where there is no nvcc
    x = torch.randn(64, 1024, device="cuda") + 1000
    reference = module._reference(x)
    error = (module._on_gpu(x)(**module.TUNING).double() - reference).norm() / reference.norm()
    assert float(error) <= 1e-3


def test_kernels_run_in_a_cuda_graph() -> None:
    """Attention and normalisation launch on the current stream, so a CUDA graph records and replays them."""
    for name, config in (("attention", "training_512"), ("normalize", "rows_1k")):
        workload = _build(name, config=config)
        workload.run(**workload.tuning)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = workload.run(**workload.tuning)
        out.fill_(float("nan"))
        graph.replay()
        assert workload.reference
        reference = workload.reference()
        assert float((out.double() - reference).norm() / reference.norm()) <= LIMIT["bfloat16"]


QUICKWINS = [
    (case.name, variant) for case in discover(SHIPPED, "quickwins", "cuda").cases for variant in case.variants if not case.skipped
]


@pytest.mark.parametrize(("name", "variant"), QUICKWINS)
def test_quick_wins_agree_with_their_references(name: str, variant: str) -> None:
    """Both variants of every quick win compute what the float64 reference computes, twice."""
    found = discover(SHIPPED, "quickwins", "cuda")
    case = next(case for case in found.cases if case.name == name)
    made = found.benchmarks[case.benchmark](device=torch.device("cuda"), **case.parameters, variant=variant)
    assert check(TimedCall(made)).error < 1e-4


@pytest.mark.parametrize("variant", ["original", "torch"])
@pytest.mark.parametrize("config", ["rows_1k", "rows_16k"])
def test_other_variants_of_normalize(config: str, variant: str) -> None:
    """The original kernel and PyTorch's three compute what ours computes, and can be captured in a graph."""
    made = importlib.import_module("bench.normalize").normalize
    workload = made(device=torch.device("cuda"), **made.configs["cuda"][config], variant=variant)
    assert check(TimedCall(workload)).error < LIMIT["float32"]
    assert make_clock("graph", "warm", TimedCall(workload).run).take(2).times_ms
