"""The command that runs asv for a check, beside a stand-in for asv's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.playground import new_repository

STAND_IN = {
    "__init__.py": "",
    "machine.py": "class MachineCollection:\n    get_machine_file_path = None\n",
    "util.py": "import json\n\n\ndef load_json(path, js_comments):\n    return json.load(open(path))\n",
    "main.py": "import os, sys\n\n\ndef main():\n    sys.exit(int(os.environ['ENDS_WITH']))\n",
}


@pytest.mark.parametrize(("status", "passed_on"), [(0, 0), (1, 1), (2, 0)])
def test_a_benchmark_that_fails_is_its_own_failure(tmp_path: Path, status: int, passed_on: int) -> None:
    """asv ends with 2 where some failed: its results name them, and the times of the others count."""
    (tmp_path / "asv").mkdir()
    for name, text in STAND_IN.items():
        (tmp_path / "asv" / name).write_text(text)
    new_repository(tmp_path / "repo", {"asv.conf.json": "{}"})
    environ = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": "/usr/bin:/bin", "ENDS_WITH": str(status)}
    command = [sys.executable, "-m", "ratchet.harness.run_asv", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=tmp_path / "repo", env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == passed_on, done.stderr
