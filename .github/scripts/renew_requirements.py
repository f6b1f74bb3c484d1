"""Write .github/requirements-*.txt again with the versions of constraints.txt. Run it after renewing those.

The names stay as they are in the files. pip says which wheel it would take on each kind of machine, and its digest.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLIBC = ["2014", *(f"_2_{minor}" for minor in range(17, 29))]
"""As old as torch's wheels need it. With digests given, pip takes one of these wheels on newer machines too."""
MACHINES = {
    "requirements-hosted.txt": [("3.12", "x86_64")],
    "requirements-gpu.txt": [(python, arch) for python in ("3.11", "3.12", "3.13") for arch in ("x86_64", "aarch64")],
}
"""File → Pythons and architectures that install it."""


def main() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    for name, machines in MACHINES.items():
        path = ROOT / ".github" / name
        lines = path.read_text().splitlines()
        wanted = sorted((f"{each}=={pins[each]}" for line in lines if (each := line.partition("==")[0]) in pins), key=str.lower)
        digests: dict[str, set[str]] = {pin: set() for pin in wanted}
        for python, arch in machines:
            for pin, digest in _wheels(wanted, python, arch).items():
                digests[pin].add(digest)
        pinned = [" ".join([pin, *(f"--hash=sha256:{each}" for each in sorted(digests[pin]))]) for pin in wanted]
        path.write_text("\n".join([*(line for line in lines if line.startswith("#")), *pinned]) + "\n")


def _wheels(wanted: list[str], python: str, arch: str) -> dict[str, str]:
    """Pin → digest of the wheel that such a machine takes."""
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--implementation=cp"]
    options += [f"--python-version={python}", *(f"--platform=manylinux{glibc}_{arch}" for glibc in GLIBC)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options += [f"--target={folder}", f"--report={report}"]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *options, *wanted], check=True)
        found = json.loads(report.read_text())["install"]
    names = {_plain(pin.partition("==")[0]): pin for pin in wanted}
    return {names[_plain(each["metadata"]["name"])]: each["download_info"]["archive_info"]["hashes"]["sha256"] for each in found}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
