"""Start and lead the confined processes that run a file of the user: the referee's end of docs/evaluate.md.

One `Runner` is one file: a process that has torch and is confined, and a fresh fork of it that has imported the file. What it
says is checked as a message of a stranger; what it computes is read from memory of this process, as bytes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field

from ratchet.core import units
from ratchet.core.bench import wire
from ratchet.core.bench.messages import parse
from ratchet.core.bench.tree_spec import child_command
from ratchet.core.errors import HostError, WorkerError
from ratchet.core.processes import Output, end_guard
from ratchet.core.records import Record
from ratchet.core.untrusted import clean, last_lines
from ratchet.lab.child import containment
from ratchet.lab.gpu_memory import GpuMemory, InUse
from ratchet.lab.records.evaluation import SourceFile

if TYPE_CHECKING:
    from ratchet.lab.child.memory import SharedMemory

Answer = TypeVar("Answer", bound=Record)
Role = Literal["reference", "head", "maker"]
"""What a file is in an evaluation: the baseline, the candidate, or what makes the arguments of both."""
START_S = 120.0
"""Longest time in which a process may import torch."""
RESTLESS_S, RESTLESS = 0.005, 0.01
"""What stopped processes may run all the same: seconds, and the share of the time."""
LONGEST_STOP_S = 1.0
"""Longest time in which a thread may take note of the signal that stops it: a busy core has others to run."""
QUIET = {
    "OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4", "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip
"""Threads without work sleep at once. No helper processes compile."""


class Part(Record):
    """One tensor among arguments or results."""

    place: Annotated[str, Field(max_length=300)] = ""
    dtype: Annotated[str, Field(pattern=r"^(float|bfloat|complex|u?int|bool)\d{0,3}(_\w{1,12})?$")]
    shape: Annotated[tuple[Annotated[int, Field(ge=0, le=2**40)], ...], Field(max_length=64)]
    order: Annotated[tuple[int, ...], Field(max_length=64)] = ()
    """The dimensions of an argument as they lie in memory, where that is another order."""


class Parts(Record):
    """The tensors of a result."""

    parts: Annotated[tuple[Part, ...], Field(max_length=4096)]


class MadeArguments(Parts):
    """The arguments that a maker has made: their tree, in which tensors are numbered."""

    tree: dict[str, Any]


class OpenedFiles(Record):
    paths: Annotated[tuple[str, ...], Field(max_length=20_000)]


class Done(Record):
    pass


class RunnerTrouble(WorkerError):
    """A file failed."""

    def __init__(self, role: Role, message: str) -> None:
        super().__init__(clean(message))
        self.role = role


class CannotShare(HostError):
    """Memory of the GPU that a runner cannot open; fewer namespaces may help."""


class Runner:
    """One file of the user, in processes of its own."""

    def __init__(
        self,
        role: Role,
        source: SourceFile,
        function: str,
        gpu: GpuMemory | None,
        timeout_s: float,
        connection: socket.socket,
        output: Output,
    ) -> None:
        """Lead the process at the other end of a connection, once it is confined. ``gpu``: None on the CPU.

        Raises HostError with the end of the output, in which is what was printed until then.
        """
        from ratchet.lab.child.memory import new_pages

        self.role, self.source, self.function, self.timeout_s = role, source, function, timeout_s
        self._gpu, self.device = gpu, "cuda" if gpu else "cpu"
        self._connection, self._control = connection, wire.Channel(connection)
        try:
            self._pid = int(self._control.receive(START_S)["pid"])
            self.holds = tuple(map(str, self._control.receive(START_S)["holds"]))
        except (wire.Disconnected, wire.Timeout, wire.ProtocolError, KeyError):
            said = " | ".join(last_lines(output.text(), 3)) or "it printed nothing"
            raise HostError(f"The process for {source.path} did not start: {said}", "") from None
        self._pages = new_pages()
        self.memory = self._new_memory(0)
        self._outgrown: list[SharedMemory] = []
        self._channel: wire.Channel | None = None
        self._output = Output()
        self.setup_s = self._restless_s = self._rest_s = self._rest_since = 0.0
        self._used_ns: dict[str, int] | None = None
        """Nanoseconds that each thread had run when all were stopped; None while they run."""
        self._alive: set[str] = set()
        self._newest: object = None
        """The threads that had not ended then, and the number of the newest one, if no other program's are counted."""
        self._before_bytes = self._device_bytes = self._peak_bytes = 0

    def fork(self, seed: int) -> None:
        """Replace the process that runs the file by a fresh one, and import the file. Raises RunnerTrouble."""
        if self._channel is not None:
            self.end()
            self._channel.close()
        ours, theirs = socket.socketpair()
        self._output = Output()
        with theirs, self._output.handed_over() as writer:
            self._tell("fork", theirs.fileno(), writer, self._pages)
        self._channel = wire.Channel(ours)
        self._device_bytes = self._peak_bytes = 0
        self._share()
        self._before_bytes = self._held_bytes() - self.memory.size
        began = perf_counter()
        self.ask("load", Done, path=self.source.path, text=self.source.text, function=self.function, seed=seed)
        self.setup_s = perf_counter() - began

    def map(self, size: int) -> SharedMemory:
        """Return memory of so many bytes, or more, which the runner can write to as well."""
        if self.memory.size < size:
            self._outgrown.append(self.memory)
            self.memory = self._new_memory(size)
            self._share()
        return self.memory

    def _new_memory(self, size: int) -> SharedMemory:
        from ratchet.lab.child import memory

        try:
            return memory.DeviceMemory(size=size) if self._gpu else memory.HostMemory(self._pages, size)
        except OSError as error:
            raise HostError(
                f"There is no memory for {units.size(size)} of inputs and results: {error}.", "Give smaller inputs with --input."
            ) from None

    def _share(self) -> None:
        """Let the runner open the memory. Raises CannotShare."""
        try:
            self.ask("map", Done, handle=self.memory.handle, size=self.memory.size)
        except OSError as error:
            raise CannotShare(f"This GPU cannot share memory between processes: {error}.", "") from None
        except RunnerTrouble as error:
            if "cuIpc" in error.message:
                raise CannotShare(f"The GPU's driver shares no memory with a confined process: {error.message}", "") from None
            raise

    def timed(self, count: int, seed: int, **how: bool) -> float:
        """Have the first slots called in one message; return the seconds it took until all processes of this side stood still.

        The clock begins before they run, so that nothing can look at the inputs earlier, and ends when none of them can write any
        more: what a thread or another process would finish later is not there. ``how``: as `FileProcess.batch` takes it. Raises
        RunnerTrouble.
        """
        before = self._in_use()
        self._check_rest()
        began = perf_counter()
        self._tell("go")
        self._answered("batch", Done, count=count, seed=seed, **how)
        self._tell("stop")
        took_s = perf_counter() - began
        self._begin_rest()
        self._count(before)
        return took_s

    def ask(self, wish: str, expected: type[Answer], **arguments: Any) -> Answer:
        """Send a wish and return the answer. Raises RunnerTrouble."""
        before = self._in_use()
        answer = self._answered(wish, expected, **arguments)
        if wish != "map":  # a context, and our own memory
            self._count(before)
        return answer

    def _answered(self, wish: str, expected: type[Answer], **arguments: Any) -> Answer:
        if self._channel is None:
            raise RunnerTrouble(self.role, "no process of it has been started")
        nonce = secrets.token_hex(8)  # so that no answer can be written before its question
        try:
            self._channel.send({"wish": wish, "nonce": nonce, **arguments})
            message = self._channel.receive(self.timeout_s)
            if message.pop("nonce", None) != nonce:
                raise wire.ProtocolError("an answer to no question")
            if "trouble" in message:
                raise RunnerTrouble(self.role, str(message["trouble"]))
            return parse(message, expected)
        except wire.Timeout:
            raise RunnerTrouble(self.role, f"hung: no answer within {self.timeout_s:g} s") from None
        except wire.Disconnected:
            raise RunnerTrouble(self.role, f"crashed: {self._end()}") from None
        except wire.ProtocolError as error:
            raise RunnerTrouble(self.role, f"it does not follow the protocol: {error}") from None

    def _in_use(self) -> InUse:
        """Return the memory of the GPU that is in use, of which only the side that is asked can take more meanwhile."""
        return self._gpu.ours() if self._gpu else InUse(0, 0)

    def _count(self, before: InUse) -> None:
        """Count what is in use on the GPU now, and was not before: only this side could take it."""
        self._device_bytes += self._in_use().least - before.most
        self._peak_bytes = max(self._peak_bytes, self._device_bytes)

    def _end(self) -> str:
        status = self._tell("status").get("status")
        if isinstance(status, int) and status < 0:
            with contextlib.suppress(ValueError):
                return f"its process died of {signal.Signals(-status).name}"
        return "its process ended" + (f": {lines[0]}" if (lines := last_lines(self._output.text(), 1)) else "")

    def stop(self) -> None:
        """Hold all processes of this side, whatever they do: nothing of it runs while the other side is timed."""
        self._tell("stop")
        self._begin_rest()

    def go(self) -> None:
        """Let the processes of this side run. Raises RunnerTrouble if they did not stand still until now."""
        self._check_rest()
        self._tell("go")

    def _begin_rest(self) -> None:
        until = perf_counter() + LONGEST_STOP_S
        before, states = None, _states(processes := self._processes())
        # Until each thread stands still, or has ended, its count of time is not complete; and a list that was read while a
        # process ended lacks what that one had started.
        while (states != before or {*states.values()} - {*"TtZX"}) and perf_counter() < until:
            sleep(1e-4)
            before, states = states, _states(processes := self._processes())
        self._alive = {thread for thread, state in states.items() if state not in "ZX"}
        self._used_ns, self._newest, self._rest_since = _threads_ns(processes), self._newest_thread(), perf_counter()

    def _check_rest(self) -> None:
        """Compare how long threads have run with that at the stop: a signal can wake what another one stopped."""
        if self._used_ns is None:
            return
        now_ns = _threads_ns(self._processes())
        # The time of a thread that has ended is nowhere. But only what runs can end, or start another one.
        are_others = self._alive - now_ns.keys() or self._newest != self._newest_thread()
        self._restless_s += sum(max(0, used - self._used_ns.get(thread, 0)) for thread, used in now_ns.items()) / 1e9
        self._rest_s += perf_counter() - self._rest_since
        self._used_ns = None
        if are_others or self._restless_s > RESTLESS_S + RESTLESS * self._rest_s:
            raise RunnerTrouble(self.role, "its processes ran while they were stopped")

    def _newest_thread(self) -> object:
        return self._tell("number")["number"] if "pid" in self.holds else None

    def end(self) -> None:
        """End the processes that ran the file."""
        self._tell("end")
        self._used_ns = None
        while self._outgrown:
            self._outgrown.pop().close()

    def _tell(self, word: str, *descriptors: int) -> dict[str, Any]:
        try:
            socket.send_fds(self._connection, [word.encode()], descriptors)
            return self._control.receive(START_S)
        except (wire.Disconnected, wire.Timeout, wire.ProtocolError, OSError):
            raise RunnerTrouble(self.role, "the process that it was forked from is gone") from None

    def peak_bytes(self) -> int:
        """Return the most memory that the file has held since before it was imported, in all its processes, without ours."""
        if self._gpu is None:
            self._peak_bytes = max(self._peak_bytes, self._held_bytes(peak=True) - self._before_bytes - self.memory.size)
        return self._peak_bytes

    def current_bytes(self) -> int:
        """Return the memory that the file holds now, counted as `peak_bytes` does."""
        return max(0, self._device_bytes if self._gpu else self._held_bytes() - self._before_bytes - self.memory.size)

    def _processes(self) -> list[int]:
        """Return the processes that run the file, its own one first."""
        found = containment.below(self._pid)
        return found[1:] if "pid" in self.holds else found  # the first one is that of the namespace

    def _held_bytes(self, *, peak: bool = False) -> int:
        runner, *others = self._processes() or [0]
        own = _field_bytes(runner, "status", "VmHWM:" if peak else "VmRSS:")
        held = own + sum(_field_bytes(pid, "smaps_rollup", "Pss:") for pid in others)
        mapped = _field_bytes(runner, "status", "RssShmem:") - self.memory.size
        return held + max(0, self._files_in_memory([runner, *others]) - max(0, mapped))

    def _files_in_memory(self, pids: Sequence[int]) -> int:
        """Return the size of files that are memory, whether any process maps them or not: below /dev/shm, and without a name."""
        sizes: dict[int, int] = {}
        for pid in pids:
            for link in Path(f"/proc/{pid}/fd").glob("*"):
                with contextlib.suppress(OSError):
                    if str(link.readlink()).startswith("/memfd:"):
                        sizes[link.stat().st_ino] = link.stat().st_blocks * 512
        sizes.pop(os.fstat(self._pages).st_ino, None)
        with contextlib.suppress(OSError):
            shared = os.statvfs(f"/proc/{pids[0]}/root/dev/shm") if "mount" in self.holds else None
            sizes[0] = (shared.f_blocks - shared.f_bfree) * shared.f_frsize if shared else 0
        return sum(sizes.values())

    def close(self) -> None:
        """End all processes."""
        if self._channel is not None:
            self._channel.close()
        self._control.close()
        os.close(self._pages)


@contextlib.contextmanager
def started(
    sources: Mapping[Role, tuple[SourceFile, str]],
    options: Mapping[str, Any],
    gpu: GpuMemory | None,
    scratch: Path,
    environ: Mapping[str, str],
    timeout_s: float,
) -> Iterator[Callable[[], dict[Role, Runner]]]:
    """Begin to start a confined process for each source, and yield a function that waits for them; end them afterwards.

    ``options`` are those of `child.runner`; ``gpu`` is None on the CPU. The function raises HostError.
    """
    pairs = {role: socket.socketpair() for role in sources}
    for role in sources:
        for cache in ("tmp", *(cache.lower() for cache in containment.CACHES)):
            (scratch / role / cache).mkdir(parents=True)
    controls = [theirs.fileno() for _, theirs in pairs.values()]
    output = Output()
    with output.handed_over() as writer:
        process = subprocess.Popen(
            child_command(
                "ratchet.lab.child.runner", controls=controls, writable=[scratch / role for role in sources], **options
            ),
            env={**environ, **QUIET},
            stdin=subprocess.PIPE,
            stdout=writer,
            stderr=writer,
            pass_fds=controls,
            start_new_session=True,
        )
    for _, theirs in pairs.values():
        theirs.close()
    runners: dict[Role, Runner] = {}

    def ready() -> dict[Role, Runner]:
        for role, (source, function) in sources.items():
            runners[role] = Runner(role, source, function, gpu, timeout_s, pairs[role][0], output)
        return runners

    try:
        yield ready
    finally:
        for runner in runners.values():
            runner.close()
        for ours, _ in pairs.values():
            ours.close()
        end_guard(process)


def _threads_ns(pids: Sequence[int]) -> dict[str, int]:
    """Return the nanoseconds that each thread of these processes has run."""
    return {thread: int(text.split()[0]) for thread, text in _of_threads(pids, "schedstat")}


def _states(pids: Sequence[int]) -> dict[str, str]:
    """Return the state of each thread of these processes, a letter."""
    return {thread: text.rpartition(")")[2].split()[0] for thread, text in _of_threads(pids, "stat")}


def _of_threads(pids: Sequence[int], file: str) -> Iterator[tuple[str, str]]:
    """Yield the number of each thread of these processes, and what the kernel says of it in a file."""
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob(f"*/{file}"):
            with contextlib.suppress(OSError):  # it is gone
                yield path.parent.name, path.read_text(encoding="utf-8", errors="replace")


def _field_bytes(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024
    return 0
