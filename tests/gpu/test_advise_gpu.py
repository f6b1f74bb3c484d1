"""`ratchet advise` on a GPU: planted and clean scripts, and torch's own pattern matcher beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, profile  # noqa: E402  after the skip
from torch.profiler._pattern_matcher import ExtraCUDACopyPattern, FP32MatMulPattern  # noqa: E402

from ratchet.explain.advice import advise  # noqa: E402
from ratchet.explain.advice.trace import read_trace  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
ROOT = Path(__file__).parents[2]


def test_planted_and_clean_scripts(tmp_path: Path) -> None:
    """Each plant is found, four in five of them first; no clean script for a GPU has a finding."""
    script = ROOT / "research" / "advise_traces.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=False, capture_output=True, timeout=600)
    rows = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    planted = [row for row in rows if row["planted"]]
    assert [row["script"] for row in planted if row["planted"] not in row["found"]] == []
    assert sum(row["found"][:1] == [row["planted"]] for row in planted) >= len(planted) * 4 // 5, rows
    assert [(row["script"], row["found"]) for row in rows if not row["planted"] and row["found"] and row["gpu_busy"]] == []


def products() -> None:
    a = torch.randn(4096, 4096, device="cuda")
    for _ in range(6):
        a @ a


def copies() -> None:
    for _ in range(20):
        torch.zeros(100, 10).to("cuda")


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # there is one cycle
@pytest.mark.parametrize(
    ("function", "pattern", "ours"),
    [(products, FP32MatMulPattern, "fp32-matmul"), (copies, ExtraCUDACopyPattern, "tensor-per-call")],
)
def test_both_find_the_same(function, pattern, ours: str, tmp_path: Path, monkeypatch) -> None:
    """What torch's matcher finds in these, ratchet finds too."""
    torch.backends.cuda.matmul.allow_tf32 = False
    function()
    # It looks for TF32 only if every GPU that torch was built for has it, whatever GPU is there. Set once CUDA is up: torch
    # compares this list with the GPU when it starts.
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80"])
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=True, record_shapes=True) as taken:
        function()
        torch.cuda.synchronize()
    path = tmp_path / "trace.json"
    taken.export_chrome_trace(str(path))
    assert pattern(taken).matched_events()
    assert ours in {finding.pattern for finding in advise(read_trace(path), "x").findings}


def test_the_command(tmp_path: Path) -> None:
    """A script in a process of its own: its finding, its line, and the GPU's name."""
    script = ROOT / "tests" / "advise" / "planted" / "gaps.py"
    done = subprocess.run(
        [sys.executable, "-m", "ratchet", "advise", "--json", str(script)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    advice = json.loads(done.stdout)
    assert advice["gpu"]
    assert advice["findings"][0]["pattern"] == "host-gaps"
    assert advice["findings"][0]["where"]["is_exact"]
