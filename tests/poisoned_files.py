"""Folders and archives as somebody would make them who wants more than a verdict: links, devices, bombs, names that lead out."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from ratchet.core.records.files import dumps
from tests import hostile_artifacts
from tests.poisons import GREEN, GREEN_JSON, RED_JSON, Build, Poison, folder


def poisoned_files() -> list[Poison]:
    """Artifacts that are no plain folder or archive of plain files."""
    return [*folders(), *archives()]


def folders() -> Iterator[Poison]:
    def linked(place: Path, name: str, target: Path) -> Path:
        inside = folder(dumps(GREEN))(place)
        (inside / name).unlink(missing_ok=True)
        (inside / name).symlink_to(target)
        return inside

    def made(name: str, how: Callable[[Path, Path], object]) -> Build:
        def build(place: Path) -> Path:
            inside = folder(dumps(GREEN))(place)
            how(inside / name, place)
            return inside

        return build

    def replaced(how: Callable[[Path, Path], object]) -> Build:
        def build(place: Path) -> Path:
            inside = folder(None)(place)
            how(inside / "current.json", place)
            return inside

        return build

    def secret(place: Path) -> Path:
        place.joinpath("secret.json").write_text(dumps(GREEN))
        return place / "secret.json"

    yield Poison("its file is a link", lambda place: linked(place, "current.json", secret(place)))
    yield Poison("its file is a relative link", lambda place: linked(place, "current.json", Path("../secret.json")))
    yield Poison("a link to /etc/passwd", lambda place: linked(place, "notes.txt", Path("/etc/passwd")))
    yield Poison("a link to a folder", lambda place: linked(place, "nsight", Path("/proc/self")))
    yield Poison("a link to itself", lambda place: linked(place, "loop", Path("loop")))
    yield Poison("its file is a hard link", replaced(lambda path, place: path.hardlink_to(secret(place))))
    yield Poison("a hard link beside it", made("x.txt", lambda path, place: path.hardlink_to(secret(place))))
    yield Poison("its file is a pipe", replaced(lambda path, _: os.mkfifo(path)))
    yield Poison("a pipe beside it", made("x.txt", lambda path, _: os.mkfifo(path)))
    yield Poison("its file is a folder", replaced(lambda path, _: path.mkdir()))
    yield Poison("a socket beside it", made("s", lambda path, _: _bind(path)))
    yield Poison("folders without end", made("d/" * 20, lambda path, _: path.mkdir(parents=True)))
    yield Poison("too many files", made("m", _many))
    for name in (".hidden", "-rf", "a\nb", "a\x1b[31m", "a|b", "<b>", "@octocat", "\u202etxt", "::error::x", "a`b", "x" * 250):
        yield Poison(f"a file called {name[:20]!r}", made(name, lambda path, _: path.write_text("x")))
    yield Poison("a link for the whole", lambda place: _link_to(place, folder(dumps(GREEN))(place)))
    yield Poison("a device for the whole", lambda _: Path("/dev/zero"))
    yield Poison("nothing there", lambda place: place / "gone")


def _bind(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have 107 characters
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


def _many(path: Path, _: Path) -> None:
    path.mkdir()
    for number in range(2_001):
        (path / f"{number}").touch()


def _link_to(place: Path, target: Path) -> Path:
    (place / "link").symlink_to(target)
    return place / "link"


def archives() -> Iterator[Poison]:
    """The archives and texts that every job is attacked with; those that are harmless hold a red run."""
    for attack in (*hostile_artifacts.archives(), *hostile_artifacts.texts()):
        yield Poison(f"an archive: {attack.name}", _served(attack), refused=bool(attack.said))


def _served(attack: hostile_artifacts.Attack) -> Build:
    def build(place: Path) -> Path:
        (place / "artifact.zip").write_bytes(attack.build(GREEN_JSON if attack.said else RED_JSON, "current.json"))
        return place / "artifact.zip"

    return build
