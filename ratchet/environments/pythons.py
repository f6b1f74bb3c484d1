"""Find or make the Python environment of each side of `ratchet check --env`, and say how the two differ.

`ratchet check` and `ratchet bisect` call `side_pythons`. It runs each interpreter once, and installs packages
with uv, or else pip, below `cache.cache_root`. It imports nothing of what it finds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.core.bench.tree_spec import OURS, PythonEnvironment
from ratchet.core.cache import cache_root
from ratchet.core.errors import UsageError
from ratchet.core.machine import ONE_FOR_BOTH, SidePythons
from ratchet.core.processes import run
from ratchet.core.records.environment import PackageDifference
from ratchet.core.records.run import SIDES, Side
from ratchet.core.report.progress import Progress
from ratchet.core.units import listed
from ratchet.core.untrusted import clean, last_lines

NEEDED = {"torch": "torch", "pydantic": "pydantic", "pynvml": "nvidia-ml-py", "numpy": "numpy"}
"""Modules that the processes of a side import → the package that has them."""
OLDEST, NEWEST = (3, 11), (3, 13)
PROBE_S, INSTALL_S = 60.0, 1800.0
"""Seconds that an interpreter may take to say what it has, and an installation."""
LONGEST_LIST = 4 << 20
"""Bytes of the list of an environment's packages."""
_FIRST = ("torch", "triton", "nvidia-", "cuda", "python")
"""What most often changes the time of a kernel, by the beginnings of names."""
_MARK = "ratchet-packages:"
_PROBE = f"""
import importlib.metadata, importlib.util, json, sys
found = {{}}
for each in importlib.metadata.distributions():
    found.setdefault(str(each.metadata["Name"]).lower().replace("_", "-"), str(each.version))
missing = [name for name in sys.argv[1:] if not importlib.util.find_spec(name)]
print("{_MARK}" + json.dumps({{"version": sys.version_info[:3], "packages": found, "missing": missing}}))
"""


def side_pythons(wanted: Mapping[Side, str], environ: Mapping[str, str], progress: Progress) -> SidePythons:
    """Find or make the environment of each side; nothing where none is wanted.

    What is wanted is an interpreter, the folder of a virtual environment, a file of requirements, or requirements such as
    ``triton==3.5.0``, which are put before the packages of our own environment; a side without a wish has our own. Raises
    UsageError where an environment cannot be found or made, lacks what measuring needs, or where both are the same.
    """
    if not wanted:
        return ONE_FOR_BOTH
    found = {side: _environment(wanted[side], environ, progress) if side in wanted else OURS for side in SIDES}
    packages = {side: _packages(each, environ) for side, each in found.items()}
    differences = compared(packages["head"], packages["reference"])
    if not differences:
        raise UsageError("Both environments hold the same packages.", "Name another one with --env reference=…")
    link = _harness_alone()
    return SidePythons({side: PythonEnvironment(each.python, (*each.first, link)) for side, each in found.items()}, differences)


def released(package: str, first: str, last: str, environ: Mapping[str, str]) -> list[str]:
    """Return the released versions of a package after ``first``, up to ``last``, the oldest first; no pre-releases.

    pip lists them, of the index that it is set up for. Raises UsageError where it cannot, or where an end is none of them.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", package]
    ended = run(command, environ=environ, folder=Path("/"), time_limit_s=PROBE_S)
    found = re.search(r"^Available versions: (.+)$", ended.output, re.MULTILINE)
    if not found:
        why = " | ".join(last_lines(ended.output, 1)) or "it printed nothing"
        raise UsageError(f"`pip index versions {clean(package)}` lists no versions: {why}", "Check the name, and pip's index.")
    numbers = {text: tuple(map(int, text.split("."))) for text in found[1].split(", ") if re.fullmatch(r"\d+(\.\d+)*", text)}
    for end in (first, last):
        if end not in numbers:
            raise UsageError(f"{clean(package)} has no version {clean(end)}.", f"There are {listed([*numbers], 12)}.")
    between = [text for text, number in numbers.items() if numbers[first] < number <= numbers[last]]
    if not between:
        raise UsageError(f"{clean(last)} is no later version than {clean(first)}.", "Name the older one first.")
    return sorted(between, key=lambda text: numbers[text])


def compared(head: Mapping[str, str], reference: Mapping[str, str]) -> tuple[PackageDifference, ...]:
    """Return the packages that differ: those that most often matter come first, then by name."""

    def rank(name: str) -> tuple[int, str]:
        return next((place for place, start in enumerate(_FIRST) if name.startswith(start)), len(_FIRST)), name

    names = sorted((name for name in {*head, *reference} if head.get(name) != reference.get(name)), key=rank)
    return tuple(PackageDifference(name=name, head=head.get(name), reference=reference.get(name)) for name in names)


def _environment(wish: str, environ: Mapping[str, str], progress: Progress) -> PythonEnvironment:
    path = Path(wish).expanduser()
    if path.is_dir():
        python = path / "bin" / "python"
        if not python.exists():
            raise UsageError(f"There is no {python}.", "Name an interpreter, or the folder of a virtual environment.")
        return PythonEnvironment(str(python.absolute()))  # not resolved: the link's place says which environment it is
    if path.suffix in (".txt", ".in") and path.is_file():
        words = ["--requirement", str(path.resolve())]
        return PythonEnvironment(OURS.python, (_installed(words, path.name, environ, progress),))
    if path.is_file():
        return PythonEnvironment(str(path.absolute()))
    if not re.search(r"[=<>~!@]", wish):
        raise UsageError(
            f"There is no {clean(wish)}.",
            "Name an interpreter, a virtual environment, a file of requirements, or requirements such as triton==3.5.0.",
        )
    return PythonEnvironment(OURS.python, (_installed(wish.split(), wish, environ, progress),))


def _installed(words: Sequence[str], shown: str, environ: Mapping[str, str], progress: Progress) -> str:
    """Return a folder with these packages and what they need. Raises UsageError.

    An earlier check may have made it: its name says what an installer chooses today, of open ranges and included files too.
    """
    uv = shutil.which("uv", path=environ.get("PATH"))
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    environments = cache_root() / "environments"
    try:
        environments.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=environments, prefix="choice-") as scratch:
            report = Path(scratch, "report.json")
            rest = ["--target", scratch] if uv else ["--ignore-installed", "--quiet", "--report", str(report)]
            said = _install([*installer, "--dry-run", *rest], words, environ, environments)
            chosen = _chosen_by_uv(said) if uv else _chosen_by_pip(report.read_text(encoding="utf-8"))
        key = hashlib.sha256(json.dumps([sys.version, *sorted(chosen)]).encode()).hexdigest()[:16]
        folder = environments / key
        if folder.is_dir():
            return str(folder)
        making = folder.with_name(f"{key}.{os.getpid()}")
        progress.stage(f"Installing {clean(shown, 100)}")
        try:
            _install([*installer, "--quiet", "--target", str(making)], words, environ, environments)
            making.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another check made it meanwhile
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    except OSError as error:
        raise _unwritable(environments, error) from None
    return str(folder)


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"{folder} cannot be written: {error.strerror}.", "Set RATCHET_CACHE_DIR to another folder.")


def _install(command: Sequence[str], words: Sequence[str], environ: Mapping[str, str], folder: Path) -> str:
    ended = run([*command, *words], environ=environ, folder=folder, time_limit_s=INSTALL_S, kept_bytes=LONGEST_LIST)
    if ended.status != 0:
        why = " | ".join(last_lines(ended.output, 3)) or "it printed nothing"
        raise UsageError(f"`{clean(' '.join(command[:4]))} …` could not install {clean(' '.join(words))}: {why}")
    return ended.output


def _chosen_by_pip(report: str) -> list[str]:
    """Return what pip would install, by its report (https://pip.pypa.io/en/stable/reference/installation-report)."""
    sources = [each["download_info"] for each in json.loads(report)["install"]]
    return [json.dumps(source) + _content(source["url"]) for source in sources]


def _chosen_by_uv(output: str) -> list[str]:
    """Return what uv would install, by its lines such as `` + name==1.0`` and `` + name @ file:///folder``."""
    found = re.findall(r"^ \+ (.+?)(?: @ (.+))?$", output, re.MULTILINE)
    return [f"{name} {url}" + _content(url) for name, url in found]


def _content(url: str) -> str:
    """Return a digest of the file or folder that a URL of this machine names; empty for other URLs."""
    found = urllib.parse.urlsplit(url)
    if found.scheme != "file":
        return ""
    path = Path(urllib.parse.unquote(found.path))
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file()):
        digest.update(f"{file.relative_to(path)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _packages(environment: PythonEnvironment, environ: Mapping[str, str]) -> dict[str, str]:
    """Return package → version, Python itself among them. Raises UsageError where it cannot serve a side."""
    command = [environment.python, "-c", _PROBE, *NEEDED]  # no -P, which Python before 3.11 does not know
    try:
        ended = run(
            command,
            environ=environment.variables(environ),
            folder=Path("/"),
            time_limit_s=PROBE_S,
            kept_bytes=LONGEST_LIST,
        )
        line = next(line for line in ended.output.splitlines() if line.startswith(_MARK))
        told = json.loads(line.removeprefix(_MARK))
        version = tuple(told["version"])
    except (OSError, StopIteration, ValueError, KeyError, TypeError):
        raise UsageError(f"{environment.python} does not run as a Python.", "Name the interpreter of an environment.") from None
    shown = ".".join(map(str, version))
    if not OLDEST <= version[:2] <= NEWEST:
        raise UsageError(f"{environment.python} is Python {shown}; measuring needs 3.11 to 3.13.", "Make the environment anew.")
    if told["missing"]:
        packages = " ".join(NEEDED[name] for name in told["missing"])
        raise UsageError(
            f"{environment.python} has no {packages}, which the processes that measure import.",
            f"Install it there: `{environment.python} -m pip install {packages}`.",
        )
    return {**{clean(name): clean(found) for name, found in told["packages"].items()}, "python": shown}


def _harness_alone() -> str:
    """Return a folder that has this package and nothing of what lies beside it: both sides run the same harness."""
    package = Path(__file__).parent.parent
    folder = cache_root() / "harness" / hashlib.sha256(str(package).encode()).hexdigest()[:16]
    link = folder / package.name
    try:
        if not link.is_symlink() or link.readlink() != package:
            folder.mkdir(parents=True, exist_ok=True)
            making = folder / f"{package.name}.{os.getpid()}"
            making.symlink_to(package)
            making.rename(link)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return str(folder)
