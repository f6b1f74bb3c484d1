"""Put ratchet beside the packages of this machine's Python, and make sure that its torch stays the one that is measured.

``record FOLDER`` runs in that Python once FOLDER is a new virtual environment. The environment then sees ratchet, the packages of
that Python as they are, and last FOLDER/packages, where pip puts what is missing. ``check FOLDER`` runs in the new environment.
`venv --system-site-packages` would not do: made by the Python of a virtual environment, it sees the packages of the base alone.
"""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import site
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Unusable(Exception):
    """This Python cannot be used; the text is one sentence."""


def record(folder: Path) -> str:
    """Let the environment in ``folder`` see this Python's packages, and write down the torch it has. Return a sentence."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        found = sys.version.split()[0]
        raise Unusable(f"{sys.executable} is Python {found}, and ratchet needs 3.11 to 3.13: name another one in python.")
    own = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    # With their .pth files, so that an editable package of that Python is found as well.
    lines = [f"import site; site.addsitedir({place!a})" for place in own if Path(place).is_dir()]
    lines.append(f"import sys; sys.path.append({str(folder / 'packages')!a})")
    packages = folder / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "ratchet.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copytree(ROOT / "ratchet", packages / "ratchet", ignore=shutil.ignore_patterns("__pycache__"))
    torch = _torch()
    before = {"python": sys.executable, "torch": torch}
    (folder / "before.json").write_text(json.dumps(before), encoding="utf-8")
    return f"{sys.executable} has {_words(torch)}."


def check(folder: Path) -> str:
    """Return a sentence about what will be measured. Raises Unusable for another torch, and for packages that do not fit."""
    before = json.loads((folder / "before.json").read_text(encoding="utf-8"))
    python, torch = before["python"], _torch()
    if torch != before["torch"]:
        raise Unusable(
            f"{python} has {_words(before['torch'])}, but beside ratchet it would be {_words(torch)}: "
            "name in python the interpreter itself, with torch among its own packages."
        )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    _check_packages([*project["dependencies"], *extras["profile"], *extras["tune"]], python)
    return f"{python} measures with {_words(torch)}."


def _torch() -> list[str] | None:
    """Version and file of the torch that an import would find; importing it would take seconds."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = "of no version"
    return [version, os.path.realpath(found.origin)]


def _words(torch: list[str] | None) -> str:
    return f"torch {torch[0]} ({torch[1]})" if torch else "no torch"


def _check_packages(requirements: list[str], python: str) -> None:
    """Follow the requirements to the last package: that Python's own packages come first, and may be too old."""
    from packaging.requirements import Requirement  # one of the pinned packages

    waiting = [Requirement(each) for each in requirements]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        try:
            found = importlib.metadata.distribution(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            raise Unusable(f"{wanted.name} is missing beside {python}: .github/requirements-gpu.txt has to name it.") from None
        if not wanted.specifier.contains(found.version, prereleases=True):
            raise Unusable(f"{python} has {wanted.name} {found.version}, and ratchet needs {wanted}: change that package there.")
        if wanted.name not in seen:
            seen.add(wanted.name)
            needed = [Requirement(each) for each in found.requires or []]
            waiting += [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def main() -> int:
    steps = {"record": record, "check": check}
    try:
        sys.stdout.write(f"{steps[sys.argv[1]](Path(sys.argv[2]))}\n")
    except Unusable as unusable:
        sys.stdout.write(f"::error title=ratchet::{unusable}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
