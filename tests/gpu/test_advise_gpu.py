"""`ratchet advise` on a GPU: planted and clean scripts, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

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
