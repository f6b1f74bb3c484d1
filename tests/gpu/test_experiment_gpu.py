"""`ratchet experiment` on a GPU: the profile has CUDA times and copies, and each answer about CUDA graphs is given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from ratchet.lab.child.experiment import floors, profile_call  # noqa: E402  after the skip
from tests.integration.playground import Playground, new_repository  # noqa: E402

PIPELINE = Path(__file__).parents[2] / "bench" / "pipeline.py"


def test_a_profile_has_cuda_times_and_copies() -> None:
    """Kernels and copies of ten calls, with the line that started them, and the bytes that crossed the bus."""
    host = torch.ones(1 << 20)

    def call() -> object:
        there = host.cuda()
        return there @ there

    found = profile_call(call, "cuda", Path(__file__).parents[2])
    assert found.by_cuda
    assert any(spot.where.startswith("tests/gpu/test_experiment_gpu.py:") for spot in found.by_cuda)
    copies = [row for row in found.copies if "HtoD" in row.name]
    assert sum(row.count for row in copies) == 10
    assert sum(row.bytes or 0 for row in copies) == 10 * (4 << 20)
    assert found.activity.pageable_copies == 10


def test_the_floors_of_a_gpu_are_plausible() -> None:
    """A launch takes microseconds, and the bus gigabytes a second."""
    found = floors("cuda")
    assert 0.5 < found.launch_us < 100
    assert 1e9 < (found.h2d_bytes_per_s or 0) < 1e12
    assert 1e9 < (found.d2h_bytes_per_s or 0) < 1e12


STAGES = {
    "kernels": ("return x * 2 + 1", "safe"),
    "no result": ("x.zero_()", "safe"),
    "a number for the host": ("return x.sum().item()", "breaks"),
    "a tensor made at each call": ("return x + torch.tensor([1.0], device='cuda')", "breaks"),
    "what the host computes": ("calls.append(1); return x * len(calls)", "depends"),
}
CAPTURE = """\
import torch
from ratchet.lab.child.experiment import capture

x, calls = torch.ones(8, device="cuda"), []

def call():
    {body}

print(*capture(call), sep=": ")
"""


@pytest.mark.parametrize("name", STAGES)
def test_cuda_graphs_are_tried(name: str) -> None:
    """Each in a process of its own, since a capture that failed spoils it."""
    body, expected = STAGES[name]
    done = subprocess.run([sys.executable, "-c", CAPTURE.format(body=body)], capture_output=True, text=True, check=False)
    verdict, _, why = done.stdout.partition(":")
    assert (verdict, bool(why.strip())) == (expected, expected != "safe"), done.stdout + done.stderr


def test_a_session_on_the_pipeline(tmp_path: Path) -> None:
    """Bytes instead of floats cross the bus: the whole call is faster, and what was tried is said about CUDA graphs."""
    text = PIPELINE.read_text(encoding="utf-8")
    new_repository(tmp_path / "repo", {"bench/pipeline.py": text})
    place = Playground(tmp_path)
    quick = ("--device", "cuda", "--pairs", "8", "--quiet")
    real = {"TESTS_REAL_CLOCK": "1"}
    done = place.ratchet("experiment", "start", "pipeline", *quick, env=real)
    assert done.code == 0, done.err
    assert "=== CUDA time ranking (top 20) ===" in done.out
    assert "Memcpy HtoD" in done.out
    text = text.replace("return frame.float() / 255", "return frame").replace(
        "image.to(device)", "image.to(device).float() / 255"
    )
    (place.repo / "bench/pipeline.py").write_text(text, encoding="utf-8")
    words = ("-m", "bytes", "--stage", "upload", "--pattern", "pageable-h2d")
    record = json.loads(place.ratchet("experiment", "run", *words, *quick, "--json", env=real).out)
    assert (record["decision"]["status"], record["decision"]["branch"]) == ("keep", "e2e"), record["decision"]
    assert record["graph"]["head"] in ("safe", "breaks", "depends")
