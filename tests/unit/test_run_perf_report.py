"""Scripts with `triton.testing.perf_report`, run beside a stand-in for Triton's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTING = """
import os


class Mark:
    def __init__(self, name):
        self.name = name

    def run(self, show_plots=False, print_data=False, save_path="", **options):
        with open(os.path.join(save_path, f"{self.name}.csv"), "w") as file:
            file.write(f"N,Triton (ms)\\n1,{options.get('ms', 1.0)}\\n")
        with open(os.path.join(save_path, "results.html"), "w") as file:
            file.write("<html>")
        return self.name
"""
SCRIPT = """
from triton.testing import Mark

first, same, never = Mark("speed"), Mark("speed"), Mark("other")
if __name__ == "__main__":
    for ms in (2.0, 3.0):
        assert first.run(print_data=True, save_path=".", ms=ms) == "speed"
    same.run()
"""


def test_no_table_takes_the_place_of_another(tmp_path: Path) -> None:
    """Reports of one name, and a report that is run again with other options, have a file each; what is never run is run too."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").touch()
    (tmp_path / "triton" / "testing.py").write_text(TESTING)
    (tmp_path / "bench.py").write_text(SCRIPT)
    (tmp_path / "out").mkdir()
    environ = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "ratchet.harness.run_perf_report", "bench.py", "out"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tables = {path.name: path.read_text().split(",")[-1].strip() for path in (tmp_path / "out").iterdir()}
    assert tables == {"speed.csv": "2.0", "speed-2.csv": "3.0", "speed-3.csv": "1.0", "other.csv": "1.0"}
