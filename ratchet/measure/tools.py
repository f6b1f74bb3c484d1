"""Other programs: where they are, what they answer. What they print is never trusted, and a failure is an answer too."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.measure.text import clean

_VERSION = re.compile(r"(?:\bV|[Vv]ersion\s+)(\d+(?:\.\d+)+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Answer:
    """What a program said. ``returncode`` is None where it could not be started or did not end in time."""

    returncode: int | None
    stdout: str = ""
    stderr: str = ""


def ask(arguments: Sequence[str | Path], timeout_s: float = 10.0, folder: Path | None = None) -> Answer:
    """Run a program without a shell and without input. Never raises."""
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Answer(None, stderr=clean(str(error)))
    return Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def find_program(name: str, extra_places: Iterable[Path] = ()) -> Path | None:
    """A program on the PATH, else in the first of the extra folders that holds it."""
    for place in (None, *extra_places):
        found = shutil.which(name, path=None if place is None else str(place))
        if found is not None:
            return Path(found)
    return None


def program_version(path: Path) -> str | None:
    """What ``path --version`` calls its version: ``13.0.48``. None where it says nothing of the kind."""
    answer = ask([path, "--version"])
    if answer.returncode != 0:
        return None
    named = _VERSION.search(answer.stdout)
    if named:
        return named[1][:40]
    number = _NUMBER.search(answer.stdout)
    return number[0][:40] if number else None
