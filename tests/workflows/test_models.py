"""One pull request measured on several GPU models: one comment with a column for each, one check run."""

from __future__ import annotations

import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.integration.playground import ADDS
from tests.workflows.scene import SETTINGS, WORKFLOWS, Scene

CALLER = """\
name: CUDA benchmark ratchet
on:
  pull_request:
permissions: {}
jobs:
  measure:
    strategy:
      fail-fast: false
      matrix:
        include:
          - model: h200
            labels: '["self-hosted", "h200"]'
          - model: l4
            labels: '["self-hosted", "l4"]'
    permissions:
      contents: read
    uses: $/.github/workflows/cuda_benchmark_ratchet.yml
    with:
      model: ${{ matrix.model }}
      runner: ${{ matrix.labels }}
"""
SLOW_ON_L4 = ADDS.replace(
    "    def run():\n",
    "    import os\n    extra = 4 if os.environ['MACHINE'] == 'l4' else 0\n\n"
    "    def run():\n        time.sleep(extra * REPEAT * 5e-5)\n",
)


@pytest.mark.slow
def test_several_models(scene: Scene, tmp_path: Path) -> None:
    """A pull request that is slower on one model is red and names it, beside the others; a model without results is no pass."""
    scene.push({"pyproject.toml": f'[tool.ratchet]\n{SETTINGS}models = ["h200", "l4"]\n'})
    scene.workflows = tmp_path / "workflows"
    shutil.copytree(WORKFLOWS, scene.workflows)
    (scene.workflows / "cuda_benchmark_ratchet.yml").write_text(CALLER, encoding="utf-8")
    threads = {"h200": "1", "l4": "2"}  # so that they are two machines
    scene.actions.gpu = lambda labels: nullcontext({"MACHINE": labels[1], "RATCHET_CPU_THREADS": threads[labels[1]]})

    run = scene.measure(scene.open_pull(SLOW_ON_L4))
    assert set(scene.actions.store.names[run.id]) == {"benchmark-ratchet-results-h200", "benchmark-ratchet-results-l4"}, run.log
    assert scene.report(run).conclusion == "success"
    comment, check = scene.comment(), scene.check()
    assert check.conclusion == "failure", comment
    assert check.title.startswith("l4: 1 of 1 case slower"), check.title
    assert "| Case | ✅ h200 | ❌ l4 |" in comment
    assert "The rest is about l4" in comment
    assert re.search(r"^\| <code>adds/<wbr>small</code> \| [^❌|]+ \| ❌ \+[^|]+ \|$", comment, re.MULTILINE), comment

    del scene.actions.store.names[run.id]["benchmark-ratchet-results-l4"]
    scene.report(run)
    assert scene.check().conclusion == "failure"
    assert scene.check().title.startswith("l4: No runner of this model gave results in time")
    assert "| Case | ✅ h200 | ❌ l4 |" in scene.comment()
