"""Programs that a runner's machine has, in a form that tests can watch.

``python`` makes virtual environments whose ``pip`` only writes down what it was asked to install, and whose ``ratchet`` is the
one under test; on a hosted machine it finds no torch there. Everything else that it is asked to do, it does. `ratchet` runs in a
fork of a process that has imported it (`tests/warm.py`), unless PYTHONPATH names something that is to be imported before.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from tests import warm
from tests.workflows.reading import ROOT

_HOSTED = "import sys; sys.modules['torch'] = None; from ratchet.cli import main; sys.exit(main())"

_PYTHON = """\
#!/bin/sh
if [ "$1 $2 $3" = "-I -m venv" ]; then
  for folder; do :; done
  mkdir -p "$folder/bin"
  cp {folder}/venv-python "$folder/bin/python"
  cp {folder}/venv-ratchet "$folder/bin/ratchet"
  exit 0
fi
exec {python} "$@"
"""

_VENV_PYTHON = """\
#!/bin/sh
if [ "$1 $2 $3" = "-I -m pip" ]; then
  printf '%s\\n' "$*" >> {folder}/pip.log
  exit 0
fi
if [ "$1 $2 $3" = "-P -m ratchet" ] && [ "$PYTHONPATH" = {harness} ]; then
  shift 3
  exec {warm} "$@"
fi
exec {python} "$@"
"""

_VENV_RATCHET = """\
#!/bin/sh
if [ "$PYTHONPATH" = {harness} ]; then exec {warm} "$@"; fi
exec {python} {ratchet} "$@"
"""


def make_machine(folder: Path, *, hosted: bool) -> Path:
    """A folder for the PATH. What pip was asked for is in its ``pip.log``."""
    folder.mkdir(parents=True, exist_ok=True)
    client = [sys.executable, "-I", "-S", warm.__file__, str(warm.warm_ratchet(without_torch=hosted).address)]
    words = {
        "warm": shlex.join(client),
        "harness": shlex.quote(str(ROOT)),
        "folder": shlex.quote(str(folder)),
        "python": shlex.quote(sys.executable),
        "ratchet": f"-P -c {shlex.quote(_HOSTED)}" if hosted else "-P -m ratchet",
    }
    for name, text in {
        "python": _PYTHON,
        "python3": _PYTHON,
        "venv-python": _VENV_PYTHON,
        "venv-ratchet": _VENV_RATCHET,
    }.items():
        path = folder / name
        path.write_text(text.format(**words), encoding="utf-8")
        path.chmod(0o755)
    return folder


def tool(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program that was installed beside this Python."""
    program = Path(sys.executable).parent / name
    return subprocess.run([str(program), *words], cwd=ROOT, capture_output=True, text=True, check=False)
