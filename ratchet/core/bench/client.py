"""Start the hosts of a device, and talk to them and to their workers: the controller's end of docs/decisions/0015.

`Hosts` starts the one child program from which all hosts of a device are forked; `HostClient` talks to the host of one tree, and
`WorkerClient` to a worker that the host has forked. Trouble with a case is a `CaseTrouble`, trouble with a tree a HostError.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ratchet
from ratchet.core.bench import wire
from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.lost import REPEATS
from ratchet.core.bench.messages import Answer, ImportedLate, Listing, Ready, Trouble, parse
from ratchet.core.bench.tree_spec import PythonEnvironment, TreeSpec, child_command
from ratchet.core.cache import scratch_folder
from ratchet.core.errors import ForeignModuleError, HostError, RecordError, WorkerError
from ratchet.core.processes import Output, end_guard
from ratchet.core.records.run import Failure, LostWorker, Side
from ratchet.core.units import wall
from ratchet.core.untrusted import clean

REAP_S = 2.0
"""Longest wait for the end of a worker whose conversation was closed; `WorkerClient.end` then kills it."""
_ANSWER_S = 30.0
"""Longest wait for what a host answers. Who gave up earlier would leave the answer to be taken for that to the next question."""
MOST_BUSY_WITH = 100
"""Characters that are shown of what a worker is busy with."""
LONGEST_START_S = 60.0
"""Longest wait for a worker to get its device, however short the time for one step of a case is."""
_OUR_FRAMES = re.compile(rf'File "({re.escape(str(Path(ratchet.__file__).parent))}/|<frozen runpy>)|Extension modules: ')
"""Lines that faulthandler prints about the harness when a worker crashes; the author's own frames stay."""
_STAGES = {"start": "prepare"} | dict.fromkeys(("use_cores", "block", "stage", "kernels"), "measure")
_STAGES |= {word: word for word in ("import", "build", "prepare", "check", "measure")}
"""Request of a worker → the stage of a `Failure`; all other requests look at what a case does: they check it."""


class CaseTrouble(WorkerError):
    """One case cannot be measured on ``side``; ``stage`` and ``last_lines`` say where and what was last printed."""

    def __init__(self, side: Side, stage: str, message: str, last_lines: tuple[str, ...]) -> None:
        super().__init__(message)
        self.side = side
        self.stage = stage
        self.last_lines = last_lines

    @property
    def reported_stage(self) -> str:
        """The stage in a word for people, whatever the request is called."""
        return _STAGES.get(self.stage, "check")

    @property
    def no_verdict(self) -> str | None:
        """Why this is no verdict on the code, or None: impossible times, or a reference that breaks the protocol."""
        if isinstance(self, Implausible) or (isinstance(self, InvalidAnswer) and self.side == "reference"):
            return f"The {self.side} could not be measured: {self.message}"
        return None

    def failure(self, message: str = "") -> Failure:
        return Failure(side=self.side, stage=self.reported_stage, message=message or self.message, last_lines=self.last_lines)


class Lost(CaseTrouble):
    """The worker ended or fell silent without a reason. This may come from outside, so it is no verdict on the code."""

    def __init__(self, side: Side, stage: str, message: str, last_lines: tuple[str, ...], how: str) -> None:
        super().__init__(side, stage, message, last_lines)
        self.how = how

    def lost_worker(self, pair: int | None) -> LostWorker:
        return LostWorker(side=self.side, pair=pair, stage=self.reported_stage, how=self.how, last_lines=self.last_lines)


class Hung(Lost):
    """A worker that did not answer in time."""


class Crashed(Lost):
    """A worker whose process ended."""


class InvalidAnswer(CaseTrouble):
    """An answer of a worker that breaks the protocol."""


class Implausible(CaseTrouble):
    """Samples of a worker that cannot be true."""


class Impossible(Implausible):
    """Samples in which no GPU could do the work that the workload declares."""


class HostLost(HostError):
    """A tree's process that ended or fell silent without a reason."""


class TreeUnreadable(HostError):
    """A tree with a file of ours that cannot be read."""

    exit_code = RecordError.exit_code
    section = RecordError.section


class HostClient:
    """The host process of one tree. Several threads may fork workers; each worker is for one thread."""

    until: float = math.inf
    """`time.monotonic` seconds: nobody waits longer than this for any worker."""
    l2_bytes: int | None = None
    """Size of the GPU's L2 cache, once a worker has reported it."""
    waiting: Callable[[], None] | None = None
    """Called each second while an answer does not come; it may raise what ends the wait."""
    import_s: float = 0.0
    """Seconds from the start of the process until its tree was imported, once it is."""

    def __init__(self, side: Side, tree: TreeSpec, channel: wire.Channel, output: Output, common: Output) -> None:
        self.side = side
        self._talking = threading.Lock()
        self.tree = tree
        self._channel = channel
        self._output = output
        self._common = common
        self._listing: Listing | None = None
        self._started_at = time.monotonic()

    def named(self, side: Side) -> HostClient:
        """Return this host under the name of another side, for two sides that share one tree."""
        other = copy.copy(self)
        other.side = side
        return other

    def close(self) -> None:
        self._channel.close()

    def listing(self) -> Listing:
        """Wait until the tree is imported and return what it offers. Raises HostError or ForeignModuleError."""
        if self._listing is None:
            self._listing = self._received_listing()
            self.import_s = time.monotonic() - self._started_at
        return self._listing

    @property
    def importing(self) -> str:
        """For how long its tree has been imported: first, since a terminal cuts long lines. Empty once it is."""
        since = wall(time.monotonic() - self._started_at)
        return "" if self._listing else f"Importing for {since}: {self.tree.bench}/ of the {self.side}"

    def _received_listing(self) -> Listing:
        try:
            found = parse(self._channel.receive(self.tree.share.import_s, self.waiting), Listing)
        except (wire.Timeout, wire.Disconnected, wire.ProtocolError) as error:
            file = f"{self.tree.bench}/{clean(self._output.section)}"  # that it imports, or imported last
            if isinstance(error, wire.Timeout):
                raise HostLost(
                    f"Importing {file} of the {self.side} took more than {self.tree.share.import_s:g} s.",
                    "Move work out of the modules' top level, or raise host_timeout.",
                ) from None
            raise HostLost(f"The {self.side}'s process ended while it imported {file}: {self._last_lines()}", "") from None
        if found.error:
            kind = TreeUnreadable if found.unreadable else HostError
            raise kind(found.error if self.side == "head" else f"{self.side.capitalize()}: {found.error}", found.hint)
        refuse_foreign(self.side, found.foreign)
        if found.touched_cuda:
            where = f" ({clean(found.cuda_used_at)})" if found.cuda_used_at else ""
            raise HostError(
                f"{self.tree.bench}/ of the {self.side} uses CUDA while it is imported{where}; no worker can be forked then.",
                "Move that work into the benchmark function. Queries of GPU properties, such as the capability, are allowed.",
            )
        return found

    def import_late(self, modules: Sequence[str]) -> ImportedLate:
        """Let workers that are forked from now on have these modules, if nothing else changes. None may live. Raises HostLost."""
        with self._talking:
            try:
                self._channel.send({"op": "import", "modules": list(modules)})
                return parse(self._channel.receive(self.tree.share.import_s, self.waiting), ImportedLate)
            except (wire.Disconnected, wire.Timeout, wire.ProtocolError, OSError):
                raise HostLost(f"The {self.side}'s process died: {self._last_lines()}", "") from None

    def fork(self, *, with_compiler: bool = False, one_queue: bool = False, watched: bool = False) -> WorkerClient:
        """Start a fresh worker with a usable device. Raises HostError, and CaseTrouble where `until` comes first.

        A worker that crashes before it has its device is replaced, twice at most. ``with_compiler``: the host first loads torch's
        compiler, if it has not yet, so that no worker spends seconds on that. ``one_queue``: on a GPU, all streams share one work
        queue, and a context takes a third of the time to make; for calls that use one stream, or that are not timed. ``watched``:
        the worker notes what it notices of the difference between the trees, until it is asked; nothing is timed before that.
        """
        crashes = 0
        while True:
            started = time.perf_counter()
            worker = self._forked(with_compiler=with_compiler)
            try:
                self.l2_bytes = worker.ask("start", Ready, one_queue=one_queue, watched=watched).l2_bytes
            except CaseTrouble as error:
                worker.end()
                if time.monotonic() >= self.until:
                    raise
                crashes += 1
                if not isinstance(error, Crashed) or crashes > REPEATS:
                    lines = " | ".join(error.last_lines[-3:])
                    text = f"The {self.side}'s worker could not use the device: {error.message} {lines}".strip()
                    raise HostError(text, "See `ratchet doctor`.") from None
            else:
                worker.timeout_s = self.tree.share.step_s
                worker.ready_s = time.perf_counter() - started
                return worker

    def _forked(self, *, with_compiler: bool) -> WorkerClient:
        """Have the host fork a worker, which has no device yet. Raises HostLost."""
        ours, theirs = socket.socketpair()
        output = Output()
        with theirs, output.handed_over() as writer, self._talking:
            try:
                self._channel.send_with_files({"op": "fork", "with_compiler": with_compiler}, [theirs.fileno(), writer])
                pid = int(self._channel.receive(max(_ANSWER_S, self.tree.share.import_s) if with_compiler else _ANSWER_S)["pid"])
            except (wire.Disconnected, wire.Timeout, wire.ProtocolError, KeyError, TypeError, ValueError, OSError):
                ours.close()
                raise HostLost(f"The {self.side}'s process died: {self._last_lines()}", "") from None
        return WorkerClient(self, pid, wire.Channel(ours), output, max(LONGEST_START_S, self.tree.share.step_s))

    def reap(self, pid: int) -> int | None:
        """Return a worker's exit code (negative: the signal that ended it); None if it still runs, or that is unknown."""
        deadline = time.monotonic() + REAP_S
        while True:
            try:
                with self._talking:
                    self._channel.send({"op": "reap", "pid": pid})
                    answer = self._channel.receive(_ANSWER_S)
            except (wire.Disconnected, wire.Timeout, wire.ProtocolError, OSError):  # OSError: another thread closed the host
                return None
            status = answer.get("status")
            if isinstance(status, int):
                return status
            if answer.get("ended") is not False or time.monotonic() > deadline:
                return None
            time.sleep(0.002)

    def _last_lines(self) -> str:
        """Return the last lines that were printed before the host ended, or before there was one."""
        return " | ".join(tail(self._output, 3) or tail(self._common, 3)) or "it printed nothing"


class WorkerClient:
    """A forked worker. Any trouble ends it, since a CUDA context does not survive an illegal access."""

    def __init__(self, host: HostClient, pid: int, channel: wire.Channel, output: Output, timeout_s: float) -> None:
        self._host = host
        self.pid = pid
        self._channel = channel
        self._output = output
        self.timeout_s = timeout_s
        self.ready_s = 0.0
        self.case = ""
        """The name of the case that it prepared last."""
        self.alive = True
        self.busy_with = ""
        """What it said last that it was busy with, while an answer does not come."""

    def ask(self, op: str, expected: type[Answer], **arguments: object) -> Answer:
        """Send one request and wait for its answer, which must be of the type ``expected``. Raises CaseTrouble."""
        patience_s = max(0.1, min(self.timeout_s, self._host.until - time.monotonic()))
        nonce = secrets.token_hex(8)  # so that no answer can be written before its question
        try:
            self._channel.send({"op": op, "nonce": nonce, **arguments})
            message = self._answer(patience_s)
            if message.pop("nonce", None) != nonce:
                raise wire.ProtocolError("an answer to no question")
            if "trouble" in message:
                trouble = parse(message, Trouble)
                if trouble.out_of_memory:
                    how = "ran out of GPU memory" if "GPU" in trouble.trouble else "ran out of memory"
                    raise Lost(self._host.side, trouble.stage, trouble.trouble, trouble.last_lines, how)
                raise CaseTrouble(self._host.side, trouble.stage, trouble.trouble, trouble.last_lines)
            return parse(message, expected)
        except wire.Timeout:
            self.end(kill=True)
            while_busy = f" while it was {self.busy_with}" if self.busy_with else ""
            answer = f"no answer within {round(patience_s, 1):g} s{while_busy}"
            why = "" if op == "start" else ": it never ends, or takes longer than case_timeout allows"
            raise Hung(self._host.side, op, f"gave {answer}{why}", tail(self._output), f"gave {answer}") from None
        except wire.Disconnected:
            how = _how_it_ended(self.end())
            perhaps = "; perhaps the machine ran out of memory" if "SIGKILL" in how else ""
            raise Crashed(self._host.side, op, f"crashed: the worker {how}{perhaps}", tail(self._output), how) from None
        except wire.ProtocolError as error:
            self.end(kill=True)
            raise InvalidAnswer(
                self._host.side, op, f"sent an invalid answer: {clean(error.message)}", tail(self._output)
            ) from None

    def _answer(self, patience_s: float) -> dict[str, Any]:
        """Return the next message that is no news of what the worker is busy with."""
        until = time.monotonic() + patience_s
        self.busy_with = ""
        while True:
            message = self._channel.receive(until - time.monotonic(), self._host.waiting)
            if message.keys() != {"busy_with"}:
                return message
            self.busy_with = clean(message["busy_with"], MOST_BUSY_WITH)

    def end(self, *, kill: bool = False) -> int | None:
        """Close the conversation, upon which the worker exits; or kill it. Returns its exit code as `HostClient.reap` does."""
        if not self.alive:
            return None
        self.alive = False
        self._channel.close()
        for is_killed in (kill, True):
            if is_killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            if (status := self._host.reap(self.pid)) is not None:
                return status
        return None


def refuse_foreign(side: Side, taken: tuple[str, ...]) -> None:
    """Raise ForeignModuleError if anything of the repository was taken from outside its tree (`Provenance.foreign`)."""
    if not taken:
        return
    first, place = clean(taken[0]), taken[0].partition(" (")[2]
    if first.startswith("finds no"):
        hint = "Let build in [tool.ratchet] make it in each tree, as `python setup.py build_ext --inplace` does."
    elif first.startswith(("reads", "runs")):
        hint = "Name it by a path relative to the benchmark file, or let build in [tool.ratchet] make it in each tree."
    elif ".so" in place and "-packages/" in place:
        hint = (
            "Let build in [tool.ratchet] make it in each tree, as `python setup.py build_ext --inplace` does, or uninstall "
            "the package that `pip` made of this repository."
        )
    elif ".so" in place:
        hint = (
            "Load it by a path relative to the benchmark file, and let build in [tool.ratchet] make it in each tree. A cache "
            "in the repository belongs into a folder whose name begins with a dot, or where TRITON_CACHE_DIR says."
        )
    else:
        hint = (
            "Uninstall that package from this environment, or add the folder of your copy to python_path in [tool.ratchet]. "
            "Rename a file of yours that only shares its name."
        )
    raise ForeignModuleError(f"The {side} {first}, so that copy would not be timed.", hint)


def tail(output: Output, count: int = 12) -> tuple[str, ...]:
    """Return the last lines that a process printed for the current case or file, made safe to print."""
    lines = (clean(raw) for raw in output.text()[-8192:].splitlines())
    return tuple(line for line in lines if line and not _OUR_FRAMES.match(line))[-count:]


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "is gone"
    if status == -signal.SIGKILL:
        return "was killed (SIGKILL)"
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    return f"exited with status {status}"


class Hosts:
    """A host for each tree, all forked from one process that has imported torch, so that libraries lie in the same places.

    Where they lie changes the time of code that is bound by the CPU by several per cent (docs/decisions/0007-biases.md).
    Use it as a context manager, in a thread that lives as long: when either ends, the hosts, their workers and everything that
    these have started are killed.
    """

    def __init__(
        self, trees: Mapping[Side, TreeSpec], environ: Mapping[str, str], waiting: Callable[[], None] | None = None
    ) -> None:
        """Start the child program. The hosts of ``trees`` are forked in this order; those of another Python come from another."""
        self.sides: dict[Side, HostClient] = {}
        self._held = contextlib.ExitStack()
        try:
            # An empty folder to run in: a relative PYTHONPATH must not find a harness in the tree.
            folder = self._held.enter_context(scratch_folder("logs"))
            of_python: dict[PythonEnvironment, dict[Side, TreeSpec]] = {}
            for side, tree in trees.items():
                of_python.setdefault(tree.python, {})[side] = tree
            for group in of_python.values():
                self._start(group, environ, folder)
            for host in self.sides.values():
                host.waiting = waiting
        except BaseException:
            self.__exit__()
            raise

    def _start(self, trees: Mapping[Side, TreeSpec], environ: Mapping[str, str], folder: Path) -> None:
        common = Output()  # holds what is printed before the hosts are forked
        first = next(iter(trees.values()))
        with contextlib.ExitStack() as handed_over:
            writer = handed_over.enter_context(common.handed_over())
            hosts: list[dict[str, object]] = []
            descriptors: list[int] = []
            for side, tree in trees.items():
                output = Output()
                printed = handed_over.enter_context(output.handed_over())
                ours, theirs = socket.socketpair()
                handed_over.enter_context(theirs)
                self.sides[side] = HostClient(side, tree, wire.Channel(ours), output, common)
                hosts.append({"conversation": theirs.fileno(), "output": printed, "tree": tree})
                descriptors += (theirs.fileno(), printed)
            child = subprocess.Popen(
                child_command("ratchet.core.bench.child.host", first.python, hosts=hosts),
                env=benchmark_environ(environ, first),
                cwd=folder,
                stdin=subprocess.PIPE,  # closed when the controller ends in any way
                stdout=writer,
                stderr=writer,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C reaches the controller alone, which then ends this in order
            )
            self._held.callback(end_guard, child)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.sides.values():
            host.close()
        self._held.close()
