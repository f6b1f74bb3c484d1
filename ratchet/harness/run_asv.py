"""Run the asv benchmarks of this tree once, in this Python, and write asv's results into a folder.

asv itself has no option for the place of its results, and with an existing environment it keeps none unless it gets a commit. The
copy of its settings that says so lies beside the settings while it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_SOME_FAILED = 2
"""Status of asv 0.6 and newer where a benchmark failed: its results say which, and hold the times of all others."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ratchet.harness.run_asv", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the results go, such as {dir} in a command of ratchet")
    parser.add_argument("--config", type=Path, default=Path("asv.conf.json"), help="asv's settings")
    parser.add_argument("--bench", action="append", default=[], help="a regular expression for the benchmarks to run")
    given = parser.parse_args()
    try:
        from asv.machine import MachineCollection
        from asv.main import main as asv
        from asv.util import load_json
    except ModuleNotFoundError:
        sys.exit(f"{sys.executable} has no asv: install it there, or name another Python in the command.")
    settings = load_json(str(given.config), js_comments=True)
    settings |= {"results_dir": str(given.folder.resolve()), "environment_type": "existing", "branches": ["HEAD"]}
    settings |= {"matrix": {}, "include": [], "exclude": []}  # of environments that asv would make
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.NamedTemporaryFile("w", dir=given.config.parent, suffix=".json") as copy,
    ):
        json.dump(settings, copy)
        copy.flush()
        machines = Path(scratch, "machines.json")  # in place of the one in the user's home, which may know no machine
        machines.write_text(json.dumps({"version": 1, "this": {"machine": "this"}}), encoding="utf-8")
        MachineCollection.get_machine_file_path = staticmethod(lambda: str(machines))
        words = ["--config", copy.name, "--environment", f"existing:{sys.executable}", "--set-commit-hash", commit]
        words += ["--record-samples", "--machine", "this", *(word for each in given.bench for word in ("--bench", each))]
        # asv takes PYTHONPATH away from the benchmarks; without it they would time an installed package instead of this tree.
        os.environ.setdefault("ASV_PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        sys.argv = ["asv", "run", *words]
        try:
            asv()
        except SystemExit as end:
            if end.code != _SOME_FAILED:
                raise


if __name__ == "__main__":
    main()
