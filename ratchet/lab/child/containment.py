"""Confine this process and all that it starts, by what Linux gives a user without rights: see docs/evaluate.md.

`child.runner` calls `enter` before it has a second thread, and `give_up_rights` in each process that will run a file of the user.
What cannot be had is left out, and the caller learns what holds: the verdict says so. It mounts, forks, and writes to /proc.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ratchet.core.processes import adopt_orphans, children, die_with_parent, end_children

PARTS = ("pid", "ipc", "net", "mount", "cores", "limits")
"""Processes of its own, shared memory of its own, no network, files read-only but for one folder, the cores that it was given,
a largest number of processes."""
MOST_PROCESSES, MOST_FILES, FILE_BYTES, SHARED_BYTES = 4096, 4096, 4 << 30, 4 << 30
"""Threads count as processes. The kernel sets no limit to the processes of root, whom it also takes for root in a namespace."""
CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "XDG_CACHE_HOME",
    "CUDA_CACHE_PATH",
    "NUMBA_CACHE_DIR",
    "CUPY_CACHE_DIR",
    "TMPDIR",
)
"""Folders of compiled code, which each side has for itself."""
_NEW_USER = 0x10000000
_NAMESPACES = {"pid": 0x20000000, "ipc": 0x08000000, "net": 0x40000000, "mount": 0x00020000}
_PRIVATE_RECURSIVE, _BIND = 0x40000 | 0x4000, 0x1000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_READ_ONLY = struct.pack("4Q", 1, 0, 0, 0)
_WRITABLE = struct.pack("4Q", 0, 1, 0, 0)
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_CAPABILITIES = 0x20080522
_SCHEDULING = {
    "x86_64": (0xC000003E, (141, 142, 144, 203, 314)),
    "aarch64": (0xC00000B7, (118, 119, 122, 140, 274)),
}
"""Machine → the kernel's name for it, and its numbers of setpriority, sched_setparam, _setscheduler, _setaffinity, _setattr."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _SAY_DONE, _NO_SUCH_CALL = 0x7FFF0000, 0x00050000, 0x00050000 | 38
_OTHER_ABI = 0x40000000
"""Calls of x86's 32-bit pointers have this bit."""

_libc = ctypes.CDLL(None, use_errno=True)


def enter(parts: Collection[str], writable: Path, visible: Collection[Path]) -> list[str]:
    """Enter new namespaces in a child, and return which of ``parts`` hold; this process waits for the child and ends with it.

    Only ``writable`` can be written to afterwards. /tmp is the folder ``tmp`` in it, unless a path of ``visible`` lies there.
    """
    wanted = [name for name in _NAMESPACES if name in parts]
    if not wanted or not _works(lambda: _unshare(wanted)):
        wanted = []
    else:
        _unshare(wanted)
        if "pid" in wanted:
            if child := os.fork():  # the first process of the namespace goes on; this one ends as it does
                _, status = os.waitpid(child, 0)
                os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
            die_with_parent()
        if "mount" in wanted and not _mount(writable, visible, own_processes="pid" in wanted):
            wanted.remove("mount")
    if "cores" in parts and platform.machine() in _SCHEDULING and _works(lambda: give_up_rights(["cores"])):
        wanted.append("cores")
    if "limits" in parts and "pid" in wanted and _works(_try_limits):
        wanted.append("limits")
    adopt_orphans()
    dumpable(is_dumpable=False)  # no process that runs a file of the user reads or changes this one
    return wanted


def attempts(parts: Sequence[str], device: str) -> list[list[str]]:
    """Return what to try in turn: drivers share a GPU's memory with another process only where they can see each other."""
    wanted = [part for part in PARTS if part in parts]
    fewer = [[part for part in wanted if part not in left_out] for left_out in ({"pid"}, {"pid", "ipc"}, {*_NAMESPACES})]
    return [wanted, *fewer] if device == "cuda" else [wanted]


def available(folder: Path) -> list[str]:
    """Return the parts that this machine allows, as another process finds them out in a folder."""
    asked = subprocess.run(
        [sys.executable, "-P", "-m", __name__, str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    return asked.stdout.split()


def _works(attempt: Callable[[], None]) -> bool:
    """Return whether something can be done, as a child finds out: there would be no way back."""
    if (child := os.fork()) == 0:
        with contextlib.suppress(OSError):
            attempt()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _unshare(parts: Sequence[str]) -> None:
    """Enter the namespaces, as the same user. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_USER | sum(_NAMESPACES[name] for name in parts)) != 0:
        raise OSError(ctypes.get_errno(), "namespaces are not allowed")
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", file).write_text(text, encoding="ascii")


def dumpable(*, is_dumpable: bool) -> None:
    """Let other processes of this user read this one's memory and files, or not: prctl(2)."""
    _libc.prctl(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0)


def limit(data_bytes: int | None = None) -> None:
    """Limit what a process may take: memory of its own, if given, files and descriptors, and what all may fork together."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: MOST_FILES, resource.RLIMIT_FSIZE: FILE_BYTES}
    if data_bytes is not None:
        limits[resource.RLIMIT_DATA] = data_bytes
    if Path("/proc/self/uid_map").read_text(encoding="ascii").split()[2] == "1":  # else it counts all processes of the user
        limits[resource.RLIMIT_NPROC] = MOST_PROCESSES
    for name, most in limits.items():
        hard = resource.getrlimit(name)[1]
        resource.setrlimit(name, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard), min(most, hard)))


def _try_limits() -> None:
    """Fork more processes than are allowed. Raises OSError where the kernel lets that happen."""
    give_up_rights(())
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    try:
        child = os.fork()
    except OSError:
        return
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    raise OSError("the number of processes is not limited")


def give_up_rights(parts: Collection[str]) -> None:
    """Give up what the namespaces gave to this process and, with ``cores``, the choice of its cores and of its priority.

    The kernel then answers that it was done, since honest code may ask too. Raises OSError where it cannot be had.
    """
    _libc.capset(struct.pack("Ii", _CAPABILITIES, 0), bytes(24))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if "cores" in parts:
        _filter_calls()


def send_all(number: signal.Signals) -> None:
    """Send a signal to every process below this one, or end them: SIGKILL also waits for their end."""
    reached: set[int] = set()
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)  # all at once, so that none can start another in between
    elif number != signal.SIGKILL:
        while new := {pid for child in children() for pid in (child, *below(child))} - reached:
            for pid in new:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            reached |= new
    if number == signal.SIGKILL:
        end_children()


def last_number() -> int:
    """Return the number that the newest process or thread of this namespace got; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/sys/kernel/ns_last_pid").read_text(encoding="ascii"))
    return 0


def below(pid: int) -> list[int]:
    """Return the processes that a process has started, theirs after each."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listing.read_text(encoding="ascii").split()):
                found += [child, *below(child)]
    return found


def _mount(writable: Path, visible: Collection[Path], *, own_processes: bool) -> bool:
    """Make all files read-only but those in ``writable``; return whether that was possible."""
    kept = os.open(writable, os.O_PATH)
    is_done = _mounted(None, "/", None, _PRIVATE_RECURSIVE) and _set_attributes("/", _READ_ONLY)
    if is_done:
        if not own_processes or not _mounted("proc", "/proc", "proc", 0):  # refused in some containers
            _set_attributes("/proc", _WRITABLE, recursive=0)  # other processes can be seen then, not touched
        for entry in Path("/proc").iterdir():  # root may set the kernel there; CUDA writes to what its own process has there
            if not entry.name.isdigit() and not entry.is_symlink() and _mounted(str(entry), str(entry), None, _BIND):
                _set_attributes(str(entry), _READ_ONLY)
        _mounted("tmpfs", "/dev/shm", "tmpfs", 0, f"size={SHARED_BYTES}")  # noqa: S108  a memory of its own
        source = f"/proc/self/fd/{kept}"
        if _mounted(source, source, None, _BIND) or _mounted(str(writable), str(writable), None, _BIND):
            _set_attributes(str(writable), _WRITABLE)
        temporary = Path("/tmp")  # noqa: S108
        if not any(path.is_relative_to(temporary) for path in (*visible, writable)):
            _mounted(str(writable / "tmp"), str(temporary), None, _BIND)
    os.close(kept)
    return is_done and os.access(writable, os.W_OK)


def _mounted(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> bool:
    words = [word.encode() if word is not None else None for word in (source, target, kind, options)]
    return bool(_libc.mount(*words[:3], flags, words[3]) == 0)


def _set_attributes(path: str, attributes: bytes, recursive: int = _AT_RECURSIVE) -> bool:
    status = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), recursive, attributes, len(attributes))
    return bool(status == 0)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filter_calls() -> None:
    """Have the kernel say "done" to each wish for other cores or another priority, of this process and all that it starts."""
    machine, numbers = _SCHEDULING[platform.machine()]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _NO_SUCH_CALL), (_LOAD, 0, 0, 0)]
    steps.append((_AT_LEAST, len(numbers) + 2, 0, _OTHER_ABI))
    steps += [(_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _SAY_DONE), (_RETURN, 0, 0, _NO_SUCH_CALL)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    if _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


if __name__ == "__main__":
    print(*enter(PARTS, Path(sys.argv[1]), ()))  # noqa: T201  for `available`
