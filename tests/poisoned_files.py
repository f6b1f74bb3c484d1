"""Folders and archives as somebody would make them who wants more than a verdict: links, devices, bombs, names that lead out."""

from __future__ import annotations

import io
import os
import socket
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ratchet.core.records.files import dumps
from tests.poisons import GREEN, RED, Build, Poison, folder


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
    text = dumps(GREEN).encode()

    def packed(*entries: tuple[str | zipfile.ZipInfo, bytes], run: bool = True, edit: Callable[[bytes], bytes] = bytes) -> Build:
        def build(place: Path) -> Path:
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                for info, content in (*([("current.json", text)] if run else []), *entries):
                    archive.writestr(info, content)
            path = place / "artifact.zip"
            path.write_bytes(edit(stream.getvalue()))
            return path

        return build

    for name in (
        *(
            "../evil.txt",
            "../../evil.txt",
            "a/../../evil.txt",
            "..",
            "/etc/evil",
            "//host/evil",
            "C:/evil",
            "..\\evil.txt",
            "a\\b",
        ),
        *(
            "./x",
            "a//b",
            "a/./b",
            "~/.bashrc",
            ".git/hooks/x",
            "nsight/../current.json",
            "x\u202ey",
            "a\nb",
            "x" * 5000,
            "a/" * 20 + "b",
        ),
    ):
        yield Poison(f"an entry called {name[:30]!r}", packed((_entry(name), b"x")))
    for kind, mode in {
        "link": stat.S_IFLNK,
        "device": stat.S_IFCHR,
        "disk": stat.S_IFBLK,
        "pipe": stat.S_IFIFO,
        "socket": stat.S_IFSOCK,
    }.items():
        yield Poison(f"a {kind} in an archive", packed((_entry("x.txt", mode), b"/etc/passwd")))
    yield Poison("its run is a link in an archive", packed((_entry("current.json", stat.S_IFLNK), b"/etc/passwd"), run=False))
    yield Poison("a folder that is a file", packed((_entry("x/", stat.S_IFREG), b"")))
    yield Poison("a bomb", packed(("x.bin", bytes(20 * 2**20))))
    yield Poison("a bomb for a run", packed(("current.json", b" " * (70 * 2**20)), run=False))
    yield Poison("its run packed twice", _twice(text))
    yield Poison("too many entries", packed(*((f"{n}", b"") for n in range(2_001))))
    yield Poison(
        "an encrypted entry",
        packed(edit=lambda raw: raw.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")),
    )
    yield Poison("a damaged entry", packed(edit=lambda raw: raw[:200] + bytes(100) + raw[300:]))
    yield Poison("a size that is a lie", packed(edit=_with_other_size))
    yield Poison("a cut archive", packed(edit=lambda raw: raw[:-40]))
    yield Poison("an archive without its list", packed(edit=lambda raw: raw[: len(raw) // 2] + raw[-22:]))
    yield Poison("a list of entries without end", packed(edit=lambda raw: raw[:-10] + b"\xff\xff\xff\x7f" + raw[-6:]))
    yield Poison("no archive", _written(b"PK hello"))
    yield Poison("an empty archive", _written(b""))
    yield Poison("an archive within", packed(("current.zip", text), run=False))


def _entry(name: str, mode: int = stat.S_IFREG) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.filename = name  # as written, whatever zipfile makes of it
    made.external_attr = (mode | 0o644) << 16
    made.compress_type = zipfile.ZIP_DEFLATED
    return made


def _twice(text: bytes) -> Build:
    def build(place: Path) -> Path:
        path = place / "artifact.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("current.json", text)
            archive.writestr("currenT.json", dumps(RED))
        path.write_bytes(path.read_bytes().replace(b"currenT", b"current"))
        return path

    return build


def _with_other_size(raw: bytes) -> bytes:
    """The list says that the first file unpacks to ten bytes."""
    place = raw.index(b"PK\x01\x02") + 24
    return raw[:place] + (10).to_bytes(4, "little") + raw[place + 4 :]


def _written(content: bytes) -> Build:
    def build(place: Path) -> Path:
        (place / "artifact.zip").write_bytes(content)
        return place / "artifact.zip"

    return build
