"""Run a script with `triton.testing.perf_report` and write its tables into a folder.

Where the script calls ``run`` itself, each call gets a ``save_path``; what it never runs is run afterwards. Of several tables of
one name, each after the first has its number.
"""

from __future__ import annotations

import argparse
import itertools
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ratchet.harness.run_perf_report", description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("folder", type=Path, help="where the tables go, such as {dir} in a command of ratchet")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    given = parser.parse_args()
    from triton.testing import Mark

    run, done, folder = Mark.run, set[int](), given.folder.resolve()

    def run_into_folder(mark: Any, *_: object, **options: Any) -> Any:
        done.add(id(mark))
        others = {key: value for key, value in options.items() if key not in ("show_plots", "print_data", "save_path")}
        with tempfile.TemporaryDirectory() as place:
            result = run(mark, show_plots=False, print_data=False, save_path=place, **others)
            for table in sorted(Path(place).glob("*.csv")):
                numbered = (f"{table.stem}-{number}.csv" for number in itertools.count(2))
                places = (folder / name for name in itertools.chain([table.name], numbered))
                shutil.move(table, next(free for free in places if not free.exists()))
        return result

    Mark.run = run_into_folder
    sys.argv = [str(given.script), *given.arguments]
    sys.path.insert(0, str(given.script.parent))  # as Python does for a script
    names = runpy.run_path(str(given.script), run_name="__main__")
    for mark in (value for value in names.values() if isinstance(value, Mark) and id(value) not in done):
        mark.run()


if __name__ == "__main__":
    main()
