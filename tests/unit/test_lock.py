"""Tests of the lock that keeps two checks off one device, with real second processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.core.device.lock import held_by, hold, lock_folder
from ratchet.core.errors import BusyError, OutputError

pytestmark = pytest.mark.no_cover

HOLDER = """
import sys
from pathlib import Path
from ratchet.core.device.lock import hold
with hold("gpu-0", "ratchet check in /x", 0, print, device="GPU 0", folder=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def other_process(folder: Path, program: str = HOLDER, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the device until its input is closed."""
    arguments = [sys.executable, "-c", program, str(folder)]
    root = Path(ratchet.__file__).parents[1]
    with subprocess.Popen(arguments, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as child:
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


def take(folder: Path, wait_s: float = 0, said: list[str] | None = None) -> contextlib.AbstractContextManager[None]:
    return hold("gpu-0", "mine", wait_s, (said if said is not None else []).append, device="GPU 0", folder=folder)


def test_busy(tmp_path: Path) -> None:
    """A device that another process holds is refused with who holds it, and what to do."""
    with other_process(tmp_path) as child, pytest.raises(BusyError) as caught, take(tmp_path):
        pass
    # With a date if the process began before midnight.
    expected = rf"GPU 0 is held by pid {child.pid} \(ratchet check in /x, user .+, since (\S+ )?\d\d:\d\d:\d\d\)\."
    assert re.fullmatch(expected, caught.value.message)
    assert caught.value.hint == "Wait for it, or pass --wait 10m."


def test_wait_in_vain(tmp_path: Path) -> None:
    """Who waits is told once whom for, and is refused when the time is over."""
    said: list[str] = []
    with other_process(tmp_path) as child, pytest.raises(BusyError), take(tmp_path, 0.2, said):
        pass
    assert len(said) == 1
    assert f"held by pid {child.pid}" in said[0]


def test_wait_for_the_end(tmp_path: Path) -> None:
    """Who waits gets the device as soon as the other process lets go."""
    with other_process(tmp_path) as child:

        def let_go(_: str) -> None:
            child.stdin.close()

        with hold("gpu-0", "mine", 30, let_go, folder=tmp_path):
            assert json.loads((tmp_path / "ratchet-gpu-0.json").read_text())["pid"] == os.getpid()


GIVING = """
import sys, time
from pathlib import Path
from ratchet.core.device.lock import Preempted, hold
folder = Path(sys.argv[1])
while True:
    try:
        with hold("gpu-0", "ratchet doctor soak in /x", 60, lambda _: None, folder=folder, gives_way=True):
            print("held", flush=True)
            time.sleep(600)
    except Preempted:
        print("gave way", flush=True)
"""


def test_a_run_that_gives_way(tmp_path: Path) -> None:
    """Its holder leaves the device to whoever comes, although that one would not wait, and takes it back last of all."""
    with other_process(tmp_path, GIVING) as child:
        with take(tmp_path):
            assert child.stdout.readline() == "gave way\n"
        assert child.stdout.readline() == "held\n"
        with take(tmp_path), contextlib.ExitStack() as waiting:
            assert child.stdout.readline() == "gave way\n"
            with pytest.raises(BusyError):
                waiting.enter_context(hold("gpu-0", "a second soak", 0.3, print, folder=tmp_path, gives_way=True))


def test_nobody_is_interrupted_for_nothing(tmp_path: Path) -> None:
    """A run that gives way keeps the device while nobody wants it, and another run that gives way does not want it."""
    with other_process(tmp_path, GIVING) as child:
        with pytest.raises(BusyError), hold("gpu-0", "a second soak", 0.5, print, folder=tmp_path, gives_way=True):
            pass
        child.kill()
        assert child.stdout.read() == ""


def test_other_device(tmp_path: Path) -> None:
    """Another device is not affected."""
    with other_process(tmp_path), hold("gpu-1", "mine", 0, print, folder=tmp_path):
        pass


def test_released_after_an_error(tmp_path: Path) -> None:
    """An error in the body lets go of the device and passes through."""
    with pytest.raises(KeyError), take(tmp_path):
        raise KeyError
    with take(tmp_path):
        pass


def test_several_users(tmp_path: Path) -> None:
    """Both files can be used by every user, whatever the umask of who created them."""
    with other_process(tmp_path, umask=0o077):
        assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
            "ratchet-gpu-0.lock": 0o666,
            "ratchet-gpu-0.json": 0o666,
        }


def test_key_is_no_path(tmp_path: Path) -> None:
    """A key with slashes still names files within the folder."""
    with hold("../../GPU 0/x", "mine", 0, print, folder=tmp_path):
        names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["ratchet-..-..-GPU-0-x.json", "ratchet-..-..-GPU-0-x.lock"]


def test_unusable_folder(tmp_path: Path) -> None:
    """A folder where no lock can be created is an error that names the cure."""
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(OutputError, match="RATCHET_LOCK_DIR"), take(place):
        pass


def test_the_place_of_the_lock_is_that_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the first folder that everybody may write to, whatever TMPDIR says; only RATCHET_LOCK_DIR names another."""
    own, everybody, last = (tmp_path / name for name in ("own", "everybody", "last"))
    for folder, mode in ((own, 0o755), (everybody, 0o1777), (last, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    places = (tmp_path / "missing", own, everybody, last)
    monkeypatch.setenv("TMPDIR", str(own))
    assert lock_folder({"TMPDIR": str(own)}, places) == everybody
    assert lock_folder({}, (own, tmp_path / "missing")) == tmp_path / "missing"
    assert lock_folder({"RATCHET_LOCK_DIR": str(own)}, places) == own
    assert lock_folder({"TMPDIR": str(own)}) == lock_folder({"TMPDIR": str(last)})


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 4096,
        b'{"pid": "x"}',
        b'{"pid": true}',
        b'{"pid": -1}',
        b'{"pid": 1' + b"0" * 5000 + b"}",
    ],
)
def test_worthless_note(tmp_path: Path, text: bytes | None) -> None:
    """A note that is missing or makes no sense leaves an unnamed process."""
    note = tmp_path / "note"
    if text is not None:
        note.write_bytes(text)
    assert held_by(note, "GPU 0") == "GPU 0 is held by another process."


def test_hostile_note(tmp_path: Path) -> None:
    """What a note says is shown without control characters and cut to a sane length."""
    note = tmp_path / "note"
    note.write_text(json.dumps({"pid": 5, "what": "\x1b]0;x\x07a\nb\u202e" + "y" * 999, "user": "\r\n", "since": "9999-99"}))
    told = held_by(note, "GPU 0")
    assert told.isprintable()
    assert len(told) < 500


@pytest.mark.parametrize("more", [{}, {"what": 5, "user": None, "since": 7}])
def test_bare_note(tmp_path: Path, more: dict[str, Any]) -> None:
    """Parts of a note that are missing or of the wrong kind are left out."""
    note = tmp_path / "note"
    note.write_text(json.dumps({"pid": 5} | more))
    assert held_by(note, "GPU 0") == "GPU 0 is held by pid 5."


def test_since_yesterday(tmp_path: Path) -> None:
    """A holder since another day is shown with its date."""
    note = tmp_path / "note"
    note.write_text(json.dumps({"pid": 5, "since": (datetime.now(UTC) - timedelta(days=3)).isoformat()}))
    assert re.fullmatch(r"GPU 0 is held by pid 5 \(since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)\.", held_by(note, "GPU 0"))


@pytest.mark.parametrize("trap", ["symlink", "hardlink", "pipe", "folder"])
def test_trap(tmp_path: Path, trap: str) -> None:
    """A link, pipe or folder in the note's place is neither followed, nor written, nor waited for."""
    victim, note = tmp_path / "victim", tmp_path / "ratchet-gpu-0.json"
    victim.write_text("precious")
    victim.chmod(0o600)
    if trap == "symlink":
        note.symlink_to(victim)
    elif trap == "hardlink":
        note.hardlink_to(victim)
    elif trap == "pipe":
        os.mkfifo(note)
    else:
        note.mkdir()
    with take(tmp_path), pytest.raises(BusyError, match="another process"), take(tmp_path):
        pass
    assert victim.read_text() == "precious"
    assert victim.stat().st_mode & 0o777 == 0o600
