"""Programs that a runner's machine has, in a form that tests can watch.

``python`` makes virtual environments whose ``pip`` only writes down what it was asked to install, and whose ``ratchet`` is the
one under test; on a hosted machine it finds no torch there. Everything else that it is asked to do, it does. `ratchet` runs in a
fork of a process that has imported it (`tests/warm.py`), unless PYTHONPATH names something that is to be imported before.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests import warm
from tests.workflows.reading import ROOT

_HOSTED = "import sys; sys.modules['torch'] = None; from ratchet.core.cli import main; sys.exit(main())"

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
    for name, text in {"python": _PYTHON, "python3": _PYTHON, "venv-python": _VENV_PYTHON, "venv-ratchet": _VENV_RATCHET}.items():
        path = folder / name
        path.write_text(text.format(**words), encoding="utf-8")
        path.chmod(0o755)
    return folder


_REAL = """\
#!/bin/sh
if [ "$1 $2 $3" != "-I -m venv" ]; then exec {python} "$@"; fi
{python} "$@" --without-pip
for folder; do :; done
cd "$folder"/lib/python*/site-packages && mkdir pip && cp {pip} pip/__main__.py
"""
_PIP = """\
import sys
from pathlib import Path
assert {{"--require-hashes", "--no-deps"}} <= set(sys.argv) and sys.argv[-2] == "--target", sys.argv
target = Path(sys.argv[-1])
target.mkdir()
for path in Path({source!r}).iterdir():
    if not path.name.lower().startswith({others!r}):
        (target / path.name).symlink_to(path)
"""
OTHERS = ("torch", "functorch", "triton", "ratchet", "__editable__", "pip", "setuptools", "_distutils", "distutils")
"""What the environment of the tests has, and the pinned packages of a GPU machine have not."""


def make_environment(folder: Path, packages: Mapping[str, str] | None = None) -> Path:
    """Make a real virtual environment that has a machine's torch, and return its Python.

    ``packages`` (name → version) are empty ones; without them torch is the one of these tests. The environments that this Python
    makes are real ones too; in them pip puts the packages of these tests in place of those that it would fetch.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    here, own = (Path(sysconfig.get_path("purelib", vars={"base": str(base)})) for base in (sys.prefix, folder))
    for name, version in (packages or {}).items():
        (own / name).mkdir()
        (own / name / "__init__.py").write_text(f"__version__ = {version!r}\n", encoding="utf-8")
        (own / f"{name}-{version}.dist-info").mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (own / f"{name}-{version}.dist-info" / "METADATA").write_text(text, encoding="utf-8")
    if packages is None:
        for path in here.iterdir():
            if path.name.lower().startswith(("torch", "functorch", "triton")):
                (own / path.name).symlink_to(path)
    (folder / "pip.py").write_text(_PIP.format(source=str(here), others=OTHERS), encoding="utf-8")
    real = folder / "bin" / "python3"
    program = folder / "bin" / "python"
    program.unlink()
    real.unlink()
    real.symlink_to(Path(sys.executable).resolve())
    program.write_text(_REAL.format(python=shlex.quote(str(real)), pip=shlex.quote(str(folder / "pip.py"))), encoding="utf-8")
    program.chmod(0o755)
    return program


def tool(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program that was installed beside this Python."""
    program = Path(sys.executable).parent / name
    return subprocess.run([str(program), *words], cwd=ROOT, capture_output=True, text=True, check=False)
