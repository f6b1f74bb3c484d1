"""Allow one run at a time per device on this host. The lock belongs to the kernel, so a crash frees it; a note names its holder.

It writes two small files per device in a folder that all users share (`lock_folder`), and reads there what another user wrote,
with care.

A run that gives way (`ratchet doctor soak`) holds a device only while nobody else wants it. Whoever waits holds a shared lock
on the note, so the holder sees it without any message, and a crash of the one who waits leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import re
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout

from ratchet.core.errors import BusyError, OutputError
from ratchet.core.untrusted import clean

_EVERYONE = 0o666
_NOTE_LIMIT = 4096  # bytes
_LOOK_S = 0.1
"""Seconds between two looks at whether the device is free, or wanted."""
LEAVING_S = 30.0
"""Longest wait for a holder that gives way, for those who would not wait for any other."""
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for opening the note: another user may have put a link or a pipe in its place."""
PLACES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))  # noqa: S108  the note is opened with care, the lock has no content
"""Where locks of all users belong (Filesystem Hierarchy Standard 3.0, 3.15 and 5.9), and where they fit on any machine."""


def lock_folder(environ: Mapping[str, str], places: Sequence[Path] = PLACES) -> Path:
    """Return one folder for all users of this machine, whatever TMPDIR says: the first that everybody may write to.

    ``$RATCHET_LOCK_DIR`` overrides it, for containers that share a device and a folder.
    """
    if chosen := environ.get("RATCHET_LOCK_DIR"):
        return Path(chosen).expanduser().absolute()
    return next((place for place in places if _is_for_everybody(place)), places[-1])


def _is_for_everybody(place: Path) -> bool:
    """Judge by the folder's own mode, which is the same for all users; the rights of this one user are not."""
    try:
        mode, mount = place.stat().st_mode, os.statvfs(place)
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & 0o003 == 0o003 and not mount.f_flag & os.ST_RDONLY


@contextlib.contextmanager
def hold(
    device_key: str,
    what: str,
    wait_s: float,
    on_wait: Callable[[str], None],
    *,
    device: str | None = None,
    folder: Path,
    gives_way: bool = False,
) -> Iterator[None]:
    """Hold a device while the body runs.

    ``device_key`` and ``folder`` are the same for all users of the device (see `lock_folder`), ``device`` is how people call it
    (``GPU 0``), ``what`` names the run that holds it (``ratchet check in /x``). If it is busy, ``on_wait`` gets one sentence and
    we wait up to ``wait_s`` seconds; for a holder that gives way, `LEAVING_S` in any case.
    With ``gives_way`` the body is interrupted by `Preempted` when another run wants the device; for the main thread only.
    Raises `BusyError`, and `OutputError` where the lock cannot be created.
    """
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", device_key)[:100]
    base = folder / f"ratchet-{name}"
    lock, note, device = FileLock(f"{base}.lock", mode=_EVERYONE), Path(f"{base}.json"), device or device_key
    if (gives_way and _is_wanted(note)) or not _acquired(lock, 0):
        patience_s = wait_s if gives_way or not _note(note).get("gives_way") else max(wait_s, LEAVING_S)
        if patience_s > 0:
            on_wait(held_by(note, device))
        taken = gives_way and _acquired_last(lock, note, patience_s)
        if patience_s > 0 and not gives_way:
            with _locked_note(note, fcntl.LOCK_SH):  # so that a holder that gives way sees somebody wait
                taken = _acquired(lock, patience_s)
        if not taken:
            raise BusyError(held_by(note, device), "Wait for it, or pass --wait 10m.")
    try:
        mine = {"pid": os.getpid(), "user": _user(), "what": clean(what), "since": datetime.now(UTC).isoformat()}
        _write(note, json.dumps(mine | ({"gives_way": True} if gives_way else {})))
        with _interrupted_when_wanted(note) if gives_way else contextlib.nullcontext():
            yield
    finally:
        _write(note, "")
        lock.release()


def _acquired(lock: FileLock, timeout_s: float) -> bool:
    try:
        lock.acquire(timeout=timeout_s, poll_interval=_LOOK_S)
    except Timeout:
        return False
    except OSError as error:
        raise OutputError(
            f"{lock.lock_file} cannot be locked: {clean(error.strerror or str(error))}.",
            "Set RATCHET_LOCK_DIR to a folder that all users of the device can write to.",
        ) from error
    return True


class Preempted(BaseException):
    """Another run wants the device that this one holds while nobody else does. No ordinary handler of errors may keep it."""


def _acquired_last(lock: FileLock, note: Path, timeout_s: float) -> bool:
    """Wait until nobody else holds or wants the device."""
    deadline = time.monotonic() + timeout_s
    while _is_wanted(note) or not _acquired(lock, 0):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def _is_wanted(note: Path) -> bool:
    with _locked_note(note, fcntl.LOCK_EX, tries=1) as locked:
        return locked is False


@contextlib.contextmanager
def _locked_note(note: Path, kind: int, tries: int = 20) -> Iterator[bool | None]:
    """Lock the note while the body runs, if possible: yields whether it is locked, None where it cannot be opened."""
    try:
        descriptor = os.open(note, os.O_RDONLY | _SAFELY)
    except OSError:
        yield None
        return
    try:
        locked = False
        for _ in range(tries):  # the holder looks for an instant, and then nobody else gets it
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                locked = True
                break
            except BlockingIOError:
                time.sleep(0.001)
        yield locked
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _interrupted_when_wanted(note: Path) -> Iterator[None]:
    """Raise `Preempted` in the body, which runs in the main thread, when another run waits for the device; once."""
    over, main = threading.Event(), threading.get_ident()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if not over.is_set():
            over.set()
            raise Preempted

    def watch() -> None:
        while not over.wait(_LOOK_S):
            if _is_wanted(note):
                signal.pthread_kill(main, signal.SIGUSR1)
                return

    before = signal.signal(signal.SIGUSR1, interrupt)
    watcher = threading.Thread(target=watch, name="ratchet-gives-way", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, before)


def _note(note: Path) -> dict[str, object]:
    """Return what the note says; nothing where it is missing, half written, or a joke."""
    try:
        descriptor = os.open(note, os.O_RDONLY | _SAFELY)
        try:
            holder = json.loads(os.read(descriptor, _NOTE_LIMIT).decode(errors="replace"))
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) else {}


def held_by(note: Path, device: str) -> str:
    """Return a sentence about who holds the device, as far as the note says."""
    holder = _note(note)
    pid = holder.get("pid")
    if type(pid) is not int or not 0 < pid < 2**31:
        return f"{clean(device)} is held by another process."
    what, user, since = holder.get("what"), holder.get("user"), _since(holder.get("since"))
    details = [clean(what)] if isinstance(what, str) else []
    details += [f"user {clean(user, 40)}"] if isinstance(user, str) else []
    details += [f"since {since}"] if since else []
    more = f" ({', '.join(details)})" if details else ""
    return f"{clean(device)} is held by pid {pid}{more}."


def _since(text: object) -> str | None:
    """Return a stored moment as local time: ``21:03:11``, with its date if that is not today."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    today = moment.date() == datetime.now(UTC).astimezone().date()
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def _write(note: Path, text: str) -> None:
    """Write the note if possible: it serves people, the lock does not need it."""
    with contextlib.suppress(OSError):
        try:  # without O_CREAT: in /tmp Linux refuses that on another user's file
            descriptor = os.open(note, os.O_WRONLY | _SAFELY)
        except FileNotFoundError:
            descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, _EVERYONE)
            os.fchmod(descriptor, _EVERYONE)  # whatever the umask
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:  # somebody put a trap there
                return
            os.ftruncate(descriptor, 0)
            os.write(descriptor, text.encode()[:_NOTE_LIMIT])
        finally:
            os.close(descriptor)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
