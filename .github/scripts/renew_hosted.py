"""Write .github/requirements-hosted.txt again with the versions of constraints.txt. Run it after renewing those.

The names stay as they are in the file; pip downloads the wheels.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOSTED = ROOT / ".github" / "requirements-hosted.txt"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")


def main() -> None:
    comments, names = _read(HOSTED)
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    wanted = [f"{name}=={pins[name]}" for name in sorted(names, key=str.lower)]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--implementation=cp", f"--dest={folder}"]
        platforms = [f"--platform={platform}" for platform in PLATFORMS]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *options, *platforms, *wanted], check=True)
        wheels = {_plain(path.name.split("-")[0]): path.read_bytes() for path in Path(folder).iterdir()}
    lines = [f"{pin} --hash=sha256:{hashlib.sha256(wheels[_plain(pin.split('==')[0])]).hexdigest()}" for pin in wanted]
    HOSTED.write_text("\n".join([*comments, *lines]) + "\n")


def _read(path: Path) -> tuple[list[str], list[str]]:
    lines = path.read_text().splitlines()
    return [line for line in lines if line.startswith("#")], [line.split("==")[0] for line in lines if "==" in line]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
