"""Run a script with `triton.testing.perf_report` and write its tables into a folder.

Where the script calls ``run`` itself, each call gets the folder as its ``save_path``; what it never runs is run afterwards.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ratchet.harness.run_perf_report", description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("folder", type=Path, help="where the tables go, such as {dir} in a command of ratchet")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    given = parser.parse_args()
    from triton.testing import Mark

    run, done = Mark.run, set[int]()

    def run_into_folder(mark: Any, *_: object, **options: Any) -> Any:
        done.add(id(mark))
        others = {key: value for key, value in options.items() if key not in ("show_plots", "print_data", "save_path")}
        return run(mark, show_plots=False, print_data=False, save_path=str(given.folder), **others)

    Mark.run = run_into_folder
    sys.argv = [str(given.script), *given.arguments]
    sys.path.insert(0, str(given.script.parent))  # as Python does for a script
    names = runpy.run_path(str(given.script), run_name="__main__")
    for mark in (value for value in names.values() if isinstance(value, Mark) and id(value) not in done):
        mark.run()


if __name__ == "__main__":
    main()
