"""Run programs that are not ours: their output is bounded, and nothing that they start outlives them.

A program that forks twice, or calls `setsid`, leaves its process group, so killing the group does not reach it. But the kernel
gives an orphan to the nearest ancestor that asked for orphans (PR_SET_CHILD_SUBREAPER, prctl(2)), and that ancestor ends it.

Run as a script, this file is the guard of one command (see `run`), so it imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT_BYTES = 64 * 1024
"""Bytes at the end of a process's output that are kept: enough for the last lines of any failure."""
END_S = 10.0
"""Seconds that killed processes may take to be gone: the driver frees a GPU's memory first."""
STRAY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
"""Variables that a git hook or `git rebase` sets: any git would use that repository instead of its folder's."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MARK = b"\x1e\x1eratchet:"
"""Begins the line by which `begin_section` marks a new section of the output."""
_SECTION = re.compile(re.escape(_MARK) + rb"([^\n]*)\n")


class Output:
    """The end of a process's output, read as it arrives so that the process never waits for us, and never written to a disk.

    A process that calls `begin_section` has its earlier output forgotten.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._lock = threading.Lock()
        self._kept = b""
        self._section = ""
        self._is_open = True
        threading.Thread(target=self._drain, name="output", daemon=True).start()

    @contextlib.contextmanager
    def handed_over(self) -> Iterator[int]:
        """Yield the descriptor to write to, for a process started meanwhile; afterwards only that process holds it."""
        try:
            yield self._writer
        finally:
            os.close(self._writer)

    @property
    def section(self) -> str:
        """The name of the last section; empty before the first."""
        self._read_so_far()
        return self._section

    def text(self) -> str:
        """Return the end of this section's output so far."""
        self._read_so_far()
        return self._kept.decode("utf-8", "replace")

    def _drain(self) -> None:
        ready = select.poll()
        ready.register(self._reader, select.POLLIN)
        while self._is_open:
            ready.poll()
            self._read_so_far(is_drain=True)

    def _read_so_far(self, *, is_drain: bool = False) -> None:
        with self._lock:
            for _ in range(64 if self._is_open else 0):  # more than a pipe holds; a process may print without end
                try:
                    chunk = os.read(self._reader, 1 << 16)
                except BlockingIOError:
                    return
                if not chunk:  # nobody can write any more
                    if is_drain:  # which must not poll a descriptor that is another file's by now
                        os.close(self._reader)
                        self._is_open = False
                    return
                self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        self._kept += chunk
        start = self._kept.rfind(_MARK, max(0, len(self._kept) - len(chunk) - 4096))
        if start >= 0:
            self._kept = self._kept[start:]
            if section := _SECTION.match(self._kept):
                self._section = section[1].decode("utf-8", "replace")
                self._kept = self._kept[section.end() :]
        self._kept = self._kept[-self._kept_bytes :]


def begin_section(name: str) -> None:
    """Mark in our own output that what follows belongs to ``name``."""
    with contextlib.suppress(OSError, ValueError):  # an author's code may have closed anything
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        os.write(2, _MARK + name.replace("\n", " ").encode("utf-8", "replace")[:1000] + b"\n")


@dataclass(frozen=True)
class Ended:
    """The end of a command. ``status`` is None after a timeout, negative after a signal."""

    status: int | None
    output: str


def run(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, time_limit_s: float, kept_bytes: int = KEPT_BYTES
) -> Ended:
    """Run a command without input and keep the end of its output, both streams together.

    All that it started ends when it ends, when the time is over, and when this process ends. Raises as `started` does.
    """
    with started(command, environ=environ, folder=folder, kept_bytes=kept_bytes) as program:
        return program.wait(time_limit_s)


class Program:
    """A command that runs: see `started`."""

    def __init__(self, guard: subprocess.Popen[bytes], output: Output) -> None:
        self._guard = guard
        self._output = output

    def wait(self, time_limit_s: float) -> Ended:
        """Wait for its end, and end it when the time is over."""
        try:
            status: int | None = self._guard.wait(max(0.0, time_limit_s))
        except subprocess.TimeoutExpired:
            status = None
        end_guard(self._guard)
        return Ended(status, self._output.text())


@contextlib.contextmanager
def started(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, kept_bytes: int = KEPT_BYTES
) -> Iterator[Program]:
    """Start a command without input, whose output is kept as `run` keeps it; leaving the context ends all that it started.

    Raises OSError where it cannot be started, ValueError where a word of it holds a null byte.
    """
    output = Output(kept_bytes)
    refused, refusal = os.pipe()
    with open(refused, "rb") as reasons:  # noqa: PTH123  a descriptor has no path
        try:
            with output.handed_over() as writer:
                guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, str(refusal), *command],
                    env=dict(environ),
                    cwd=folder,
                    stdin=subprocess.PIPE,  # closed when this process ends in any way
                    stdout=writer,
                    stderr=writer,
                    pass_fds=[refusal],
                    start_new_session=True,  # Ctrl-C reaches this process alone
                )
        finally:
            os.close(refusal)
        try:
            if reason := reasons.read():
                raise OSError(int(reason), os.strerror(int(reason)), command[0])
            yield Program(guard, output)
        finally:
            end_guard(guard)


def end_guard(guard: subprocess.Popen[bytes]) -> None:
    """End a process whose task is to end all of its descendants once its input is closed; kill it if it does not."""
    if guard.stdin:
        with contextlib.suppress(OSError):
            guard.stdin.close()
    if guard.returncode is not None:  # its number may be another process's by now
        return
    try:
        guard.wait(END_S + 5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(guard.pid, signal.SIGKILL)
        guard.wait()


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def outlive_parent() -> None:
    """Undo `die_with_parent`, for a process that must end its own children first."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """Return the children of this process, with those that ended and were not waited for."""
    pids: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            pids.update(map(int, listing.read_text(encoding="ascii").split()))
    if not Path("/proc/self/task", str(os.getpid()), "children").exists():  # a kernel without CONFIG_PROC_CHILDREN
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                    pids.add(int(status.parent.name))
    return pids


def end_children(spared: Collection[int] = (), within_s: float = END_S) -> None:
    """Kill and reap all children but ``spared``, and then theirs, which become ours: see `adopt_orphans`."""
    deadline = time.monotonic() + within_s
    while (pids := children() - set(spared)) and time.monotonic() < deadline:
        for pid in pids:  # a child that nobody has waited for keeps its number
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def wait_for_end_of_input() -> None:
    """Return once whoever started this process has closed its input, or has ended."""
    while os.read(0, 1):
        pass


def _guard(refusal: int, command: Sequence[str]) -> None:
    """Run a command and end as it does, with all that it started."""
    adopt_orphans()
    os.set_inheritable(refusal, False)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        os.write(refusal, str(error.errno).encode())
        os._exit(127)
    os.close(refusal)
    threading.Thread(target=_end_with_input, daemon=True).start()
    status = child.wait()
    end_children()
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


def _end_with_input() -> None:
    wait_for_end_of_input()
    end_children()
    os._exit(128 + signal.SIGKILL)


if __name__ == "__main__":
    _guard(int(sys.argv[1]), sys.argv[2:])


ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a cancelled CI job, a closed terminal."""
WRITTEN: dict[Path, None] = {}
"""The files that this process has replaced, in order: what an interrupted command can say about its files."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back what would end this process until the block has ended."""
    if threading.current_thread() is not threading.main_thread():  # Python runs handlers in the main thread alone
        yield
        return
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDINGS}
    held = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in held:
        signal.signal(number, lambda came, _: arrived.append(came))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


def interruption_sentence() -> str:
    """Say that the command was interrupted, and which files it had written by then."""
    from ratchet.core.units import listed  # not above: run as a script, this file imports the standard library alone

    written = [os.path.relpath(path) for path in WRITTEN if path.exists()]
    files = f"written before that: {listed(written, 6)}." if written else "no file was written."
    return f"interrupted; its processes and temporary files are gone; {files}"
