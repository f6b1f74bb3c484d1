"""Runs `ratchet` in a fork of a process that has imported it already: most of a short command's time is imports.

`WarmRatchet` is the tests' end. The same file is the server (`python -m tests.warm SOCKET`), which forks a process for each
command, and the client that scripts call (`python -I -S tests/warm.py SOCKET WORDS…`). Words that begin as a host's or a
profiled process's do (``-u -P -m MODULE …``) run that module. A command gets its own arguments, also in /proc, environment,
folder, files and signal handlers. The hosts, runners, trials of `ratchet init` and profiled processes that it starts are
forked as well, where it asks for this interpreter and one of our modules, and so is a script that a test runs with ``-X warm``,
which means nothing to Python; everything else is started for real.

What such a process cannot show is how one starts, and what it does under limits: those tests use `Playground.start`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib.abc
import io
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[1]
PADDING = "-" * 4096
"""Room for the arguments of a command, which `ps` and the tests read from the memory of the process."""
LENGTH = struct.Struct("!I")


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


@functools.cache
def warm_ratchet(*, without_torch: bool = False) -> WarmRatchet:
    """The server of this process; started when it is first asked for."""
    return WarmRatchet(without_torch=without_torch)


class WarmRatchet:
    """A server that lives as long as the process that made it. ``without_torch``: commands find no torch to import."""

    def __init__(self, *, without_torch: bool) -> None:
        folder = Path(tempfile.mkdtemp(prefix="ratchet-warm-"))  # the path of a socket has to be short
        self.address = folder / "socket"
        environ = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "PYTHONHASHSEED": "0",  # as hosts have them
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # as in an evaluation, whose processes are forks of this one
            "CUDA_VISIBLE_DEVICES": "",
            # Memory in huge pages: a fork of this process copies 500 times fewer entries, and takes a third of the time.
            "PYTHONMALLOC": "malloc",
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
            "MALLOC_ARENA_MAX": "1",  # hosts run in a thread, whose own arena would grow page by page
        }
        command = [sys.executable, "-P", "-m", "tests.warm", "serve", str(self.address), str(int(without_torch)), PADDING]
        self._child = subprocess.Popen(
            command,
            env=environ,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=keep_to_own_cores,  # noqa: PLW1509  nothing but one call of the system
        )
        atexit.register(self._close, folder)
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n", "the server did not start"

    def run(self, words: Sequence[str], environ: Mapping[str, str], folder: Path, timeout_s: float) -> Ended:
        """Run ``ratchet words…`` to its end, with no input; what it prints is text."""
        with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with connect(
                str(self.address), words, environ, str(folder), [file.fileno() for file in (nothing, out, err)], safe_path=False
            ) as answers:
                pid = int(answers.readline())
                overdue = threading.Timer(timeout_s, os.kill, (pid, signal.SIGINT))
                overdue.start()
                status = answers.readline()
                in_time = overdue.is_alive()
                overdue.cancel()
            assert status, "the server is gone"
            assert in_time, f"did not end within {timeout_s} s: {_text_of(out)}\n{_text_of(err)}"
            return Ended(int(status), _text_of(out), _text_of(err))

    def _close(self, folder: Path) -> None:
        self._child.communicate()  # whose end of input ends it
        shutil.rmtree(folder, ignore_errors=True)


def keep_to_own_cores() -> None:
    """Spread tests that run at the same time over the cores: left alone, each would measure on the last one."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    cores = sorted(os.sched_getaffinity(0))
    if count > 1:
        os.sched_setaffinity(0, cores[number % len(cores) :: min(count, len(cores))])


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return io.TextIOWrapper(io.BytesIO(file.read()), "utf-8", "replace").read()


def connect(
    address: str, words: Sequence[str], environ: Mapping[str, str], folder: str, files: Sequence[int], *, safe_path: bool
) -> IO[str]:
    """Ask a server for a command. It answers with the process's number in a line, and, at its end, with its status in another."""
    body = json.dumps({"words": list(words), "environ": dict(environ), "folder": folder, "safe_path": safe_path}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(address)
        socket.send_fds(connection, [LENGTH.pack(len(body))], [*files])
        connection.sendall(body)
        return connection.makefile("r", encoding="ascii")


# The server.


def _serve(address: str, *, without_torch: bool) -> None:
    """Fork a process for each connection until the input is closed."""
    _import_all(without_torch=without_torch)
    woken, waker = socket.socketpair()
    woken.setblocking(False)
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and they end this
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)  # noqa: T201
    connections: dict[int, socket.socket] = {}
    while True:
        ready = select.select([0, woken, listener], [], [])[0]
        if 0 in ready:
            return
        if woken in ready:
            woken.recv(4096)
        if listener in ready:
            connection = listener.accept()[0]
            with connection.makefile("rb") as reader:
                header, files, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
                request = json.loads(reader.read(*LENGTH.unpack(header)))
            pid = os.fork()
            if pid == 0:
                _become_command(request, files)
            for file in files:
                os.close(file)
            connections[pid] = connection
            _answer(connection, pid)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                connection = connections.pop(ended[0])
                _answer(connection, os.waitstatus_to_exitcode(ended[1]))
                connection.close()


def _answer(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone
        connection.sendall(f"{number}\n".encode())


class _NoTorch(importlib.abc.MetaPathFinder):
    """Finds torch nowhere."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


def _import_all(*, without_torch: bool) -> None:
    import pkgutil

    import ratchet

    if without_torch:
        sys.meta_path.insert(0, _NoTorch())
    else:
        for name in (*_CHILDREN, "ratchet.core.bench.child.worker", "ratchet.core.bench.clocks"):
            importlib.import_module(name)
        from ratchet.core.bench.child import calls

        calls.seed_all(0)  # torch's first seed is slow
        _packages_of_hosts.update(name.partition(".")[0] for name in sys.modules)
    for module in pkgutil.walk_packages(ratchet.__path__, "ratchet."):
        if module.name.endswith("__main__") or (without_torch and ".child." in module.name):
            continue
        with contextlib.suppress(ImportError):  # what is optional, or needs torch
            importlib.import_module(module.name)
    for name in (
        "scipy.special",
        "jinja2",
        "rich.table",
        "rich.console",
        "github",
        "matplotlib.backends.backend_agg",
        "matplotlib.figure",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from ratchet.core.bench import duet
    from ratchet.core.report import markdown, page

    # A check of unchanged code spends eight seconds on processes that may be slow; by the clock of tests none is.
    assert duet.LIGHT_S
    assert duet.MORE_LIGHT_S
    duet.LIGHT_S = duet.MORE_LIGHT_S = 0.0
    for file in (Path(markdown.__file__).parent / "templates").glob("*.j2"):  # compiled here, for all commands
        (markdown.template if ".md" in file.suffixes else page.html_template)(file.name)
    markdown.template("github/comment.md.j2")
    # What torch's libraries do at the end of a process that defined them is nothing that a command does: it imports no torch.
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]


def _become_command(request: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    if module := _ours([sys.executable, *request["words"]]):
        subprocess._fork_exec = _fork_exec  # type: ignore[attr-defined]
        _be_called([sys.executable, *request["words"]])
        _become_new()
        _end(_status_of(module))
    _be_called([sys.executable, "-m", "ratchet", *request["words"]])
    if not request["safe_path"]:  # as `python -m` does without -P
        sys.path.insert(0, request["folder"])
    _open_standard_files()
    subprocess._fork_exec = _fork_exec  # type: ignore[attr-defined]
    from ratchet.core.cli import main

    _end(_status_of(lambda: main(request["words"])))


def _be_called(words: Sequence[str]) -> None:
    """Write other arguments over those that this process was started with, where /proc shows them."""
    sys.argv, sys.orig_argv = list(words), list(words)
    start, end = map(int, Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[45:47])
    room = end - start
    text = b"\0".join(map(os.fsencode, words))[: room - 1]
    ctypes.memmove(start, text.ljust(room, b"\0"), room)


def _open_standard_files() -> None:
    """Nothing that an ancestor had in a buffer is written again, and nothing that it read is read again."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        raw = open(number, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        text = io.TextIOWrapper(raw, "utf-8", errors, "\n", line_buffering=number == 2, write_through=unbuffered)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _status_of(run: Callable[[], object]) -> int:
    try:
        status = run()
    except SystemExit as error:
        status = error.code
        if isinstance(status, str):
            print(status, file=sys.stderr)  # noqa: T201
            status = 1
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
        status = 1
    return int(status or 0) & 0xFF  # type: ignore[call-overload, no-any-return]


def _end(status: int) -> NoReturn:
    """End this process as the interpreter would."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = 120
    os._exit(status)


# Processes that a command starts.

_ADVISE = "ratchet.explain.child.advise_target"
_TRIAL = "ratchet.adopt.trial"
_HOST = "ratchet.core.bench.child.host"
_RUNNER = "ratchet.lab.child.runner"
REAL_RUNNER = "TESTS_REAL_RUNNER"
"""A variable for tests of what confines the processes of an evaluation: they begin as those of a user do."""
_CHILDREN = (_HOST, "ratchet.explain.child.profile_target", _ADVISE, _RUNNER)
_really_fork_exec = subprocess._fork_exec  # type: ignore[attr-defined]
_PATH = list(sys.path)
_packages_of_hosts: set[str] = set()
"""What a host has imported before it imports benchmarks: it refuses a package that a tree has and that comes from elsewhere."""


def _fork_exec(*arguments: Any) -> int:
    """`subprocess`'s own function of this name, but for our modules: those are run in a fork."""
    words = [os.fsdecode(word) for word in arguments[0]]
    run = _ours(words)
    if run is None:
        return int(_really_fork_exec(*arguments))
    pid = os.fork()
    if pid:
        return pid
    _become_child(*arguments)
    status = 1

    def in_thread() -> None:
        nonlocal status
        status = _status_of(run)
        if threading.current_thread() is threading.main_thread():  # in a process that was forked from this one
            _end(status)

    if _ADVISE in words or words[3] == _TRIAL:  # it handles signals, as only a main thread can
        in_thread()
    # A thread of its own, so that the trace of a crash does not go on with what the parent was doing.
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    _end(status)


def _ours(words: list[str]) -> Callable[[], object] | None:
    import ratchet.core.processes
    from tests.steady import sitecustomize as steady

    if words[0] != sys.executable:
        return None
    if words[1:4] == ["-I", "-S", ratchet.core.processes.__file__]:

        def guard() -> object:
            if words[8:9] != [_TRIAL]:  # else what it guards is a program of its own
                subprocess._fork_exec = _really_fork_exec  # type: ignore[attr-defined]
            return ratchet.core.processes._guard(int(words[4]), words[5:])

        return guard
    is_trial = words[1:4] == ["-P", "-m", _TRIAL]
    if is_trial or words[1:3] == ["-X", "warm"]:

        def script() -> object:
            atexit._clear()  # with the temporary folders of the command that runs it, which outlive it
            weakref.finalize._registry.clear()  # type: ignore[attr-defined]
            sys.argv = words[3:]
            path = str(sys.modules[_TRIAL].__file__) if is_trial else words[3]
            if not is_trial:
                sys.path.insert(0, str(Path(path).resolve().parent))
            return runpy.run_path(path, run_name="__main__") and 0

        return script
    if words[1:4] != ["-u", "-P", "-m"] or words[4] not in _CHILDREN or (words[4] == _RUNNER and REAL_RUNNER in os.environ):
        return None
    module = importlib.import_module(words[4])

    def run() -> object:
        sys.modules["__main__"] = module
        if words[4] == _RUNNER:
            module._become_runner = functools.partial(_renew_threads, module._become_runner)  # type: ignore[attr-defined]
        sys.argv = [str(module.__file__), *words[5:]]
        if words[4] == _HOST and steady.REAL_CLOCK not in os.environ:
            steady.keep_time()
        return module.main()

    return run


def _renew_threads(then: Callable[..., object], *arguments: Any) -> None:
    """Have torch replace its pool of threads, which a fork breaks, while there is one thread.

    Two threads that first use it at once may find none, which was seen in forks of this process alone.
    """
    import torch

    torch.set_num_threads(torch.get_num_threads())
    then(*arguments)


def _become_child(
    words: Sequence[str],
    _executables: object,
    _close_fds: bool,
    kept: Sequence[int],
    folder: str | None,
    environ: Sequence[bytes] | None,
    *more: Any,
) -> None:
    stdin, _, _, stdout, _, stderr, _, errors, _, new_session = more[:10]
    for number, file in enumerate((stdin, stdout, stderr)):
        if file >= 0:
            os.dup2(file, number)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) not in set(kept) - {errors}:
            with contextlib.suppress(OSError):
                os.close(int(name))
    for file in set(kept) - {errors}:
        os.set_inheritable(file, True)
    if folder is not None:
        os.chdir(folder)
    if new_session:
        os.setsid()
    if environ is not None:
        os.environ.clear()
        os.environb.update(entry.split(b"=", 1) for entry in environ)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):  # which no new program inherits
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _be_called([os.fsdecode(word) for word in words])
    _become_new()


def _become_new() -> None:
    """Have the modules and the standard files of a process that begins."""
    sys.path[:] = _PATH
    for name in [name for name in sys.modules if name.partition(".")[0] not in _packages_of_hosts]:
        del sys.modules[name]
    _open_standard_files()
    gc.enable()


def _client(address: str, words: Sequence[str]) -> NoReturn:
    """Run a command for a script, with the script's own files, and end as the command does."""
    with connect(address, words, os.environ, os.getcwd(), [0, 1, 2], safe_path=True) as answers:  # noqa: PTH109
        answers.readline()
        status = int(answers.readline())
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(sys.argv[2], without_torch=sys.argv[3] == "1")
    else:
        _client(sys.argv[1], sys.argv[2:])
