"""Run a profiler: an argument list, no input, a time limit for it and all that it starts, and the end of what it printed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet import subprocesses
from ratchet.ansi import without_escapes
from ratchet.errors import RatchetError


class ProfileError(RatchetError):
    """A profiler gave nothing that can be used; the sentence says why and what to do. It costs a profile, never the verdict."""


@dataclass(frozen=True)
class Ended:
    """How a program ended. ``status`` is None where the time limit ended it, negative where a signal did."""

    status: int | None
    output: str

    def last_line(self) -> str:
        """The last line printed that says anything, for a sentence."""
        lines = [line for raw in self.output.splitlines() if (line := clean(raw))]
        return lines[-1] if lines else "it printed nothing"

    def line_with(self, *words: str) -> str | None:
        """The last line that holds one of these words."""
        lines = [clean(line) for line in self.output.splitlines() if any(word in line for word in words)]
        return lines[-1] if lines else None


@dataclass(frozen=True)
class Surroundings:
    """Where a program runs: its environment, its folder, and how long it may take."""

    environ: Mapping[str, str]
    folder: Path
    time_limit_s: float


def run(command: Sequence[str | Path], where: Surroundings) -> Ended:
    """Run a program; it and all that it started are gone afterwards, also on Ctrl-C.

    Raises ProfileError where it cannot be started.
    """
    try:
        ended = subprocesses.run(
            [str(word) for word in command], environ=where.environ, folder=where.folder, time_limit_s=where.time_limit_s
        )
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise ProfileError(f"{Path(command[0]).name} cannot be started: {clean(said or str(error))}.") from None
    return Ended(ended.status, ended.output)


def find_program(name: str, places: Iterable[Path], environ: Mapping[str, str]) -> Path | None:
    """A program on the PATH, else in the first of the places that holds it."""
    for path in (environ.get("PATH", ""), *map(str, places)):
        found = shutil.which(name, path=path) if path else None
        if found is not None:
            return Path(found).absolute()
    return None


def newest(root: Path, pattern: str) -> list[Path]:
    """The folders under ``root`` that match, the highest version first; none where the folder cannot be read."""
    try:
        return sorted((path for path in root.glob(pattern) if path.is_dir()), key=_version, reverse=True)
    except OSError:
        return []


def signal_name(status: int) -> str:
    """``SIGSEGV`` of a negative exit status."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def clean(text: str, longest: int = 300) -> str:
    """One line of a program's output without escapes and control characters, cut at ``longest`` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in without_escapes(text)).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _version(path: Path) -> tuple[tuple[int, ...], str]:
    numbers = "".join(c if c.isdigit() else " " for c in str(path)).split()
    return tuple(int(number) for number in numbers[:8] if len(number) < 9), str(path)
