"""Run a file of the user for the referee: take inputs, call, write results into memory of the referee, say done.

It decides nothing. It has no rule, no clock and no expected value, and nobody believes it more than the bytes that it writes.
`lab.runners` starts it with one JSON argument and a socket for each side. It imports torch and forks a process for each side,
which confines itself (`child.containment`) and forks a fresh process for each run; it stops, continues and ends these.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import json
import linecache
import os
import signal
import socket
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree

from ratchet.core.bench.child import outputs
from ratchet.core.bench.child.calls import seed_all
from ratchet.core.bench.wire import Channel, Disconnected
from ratchet.core.processes import die_with_parent
from ratchet.lab.child import containment
from ratchet.lab.child.memory import DeviceMemory, HostMemory, SharedMemory
from ratchet.lab.child.selections import in_float64, watched

LONGEST_TEXT = 500


def main() -> None:
    """Import torch once, then fork a process for each side, which confines itself and serves the referee.

    One parent for all: their memory begins with the same layout, of which a few per cent of any time depend.
    """
    options = json.loads(sys.argv[1])
    if options["imports_triton"]:
        with contextlib.suppress(ImportError):
            importlib.import_module("triton")
    gc.freeze()  # what the imports leave is never looked at again, in no fork either
    if options["cores"]:
        os.sched_setaffinity(0, options["cores"])
        torch.set_num_threads(len(options["cores"]))
    os.chdir(options["folder"])
    controls = [socket.socket(fileno=descriptor) for descriptor in options["controls"]]
    for number, (control, writable) in enumerate(zip(controls, options["writable"], strict=True)):
        control.set_inheritable(False)
        if (pid := os.fork()) == 0:
            for other in controls[:number] + controls[number + 1 :]:
                other.close()
            _serve(control, Path(writable), options)
        control.sendall(json.dumps({"pid": pid}).encode() + b"\n")
    for control in controls:
        control.close()
    for _ in controls:
        os.wait()
    os._exit(0)  # taking torch down takes longer than most evaluations' calls


def _serve(control: socket.socket, writable: Path, options: Mapping[str, Any]) -> None:
    """Confine this process, then do what the referee says until it is gone."""
    os.setsid()
    for name in containment.CACHES:
        os.environ[name] = str(writable / name.lower())
    tempfile.tempdir = None
    holds = containment.enter(options["parts"], writable, [Path(path) for path in options["visible"]])
    control.sendall(json.dumps({"holds": holds}).encode() + b"\n")
    runner, answer = 0, {}
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 3)
        if not text:
            containment.send_all(signal.SIGKILL)
            os._exit(0)
        match text.decode().strip():
            case "fork":
                if (runner := os.fork()) == 0:
                    control.close()
                    _become_runner(descriptors, holds, options)
                for descriptor in descriptors:
                    os.close(descriptor)
            case "stop":
                containment.send_all(signal.SIGSTOP)
            case "go":
                containment.send_all(signal.SIGCONT)
            case "end":
                containment.send_all(signal.SIGKILL)
            case "status":
                answer = {"status": _status(runner)}
            case "number":
                answer = {"number": containment.last_number()}
        control.sendall(json.dumps(answer).encode() + b"\n")


def _status(pid: int) -> int | None:
    """Return how a child ended; None where it still runs a second later."""
    for _ in range(100):
        with contextlib.suppress(ChildProcessError):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


def _become_runner(descriptors: Sequence[int], holds: Sequence[str], options: Mapping[str, Any]) -> None:
    connection, output, pages = descriptors
    for place in (1, 2):
        os.dup2(output, place)
    os.close(output)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    die_with_parent()
    device = options["device"]
    containment.limit(options["most_bytes"] if device == "cpu" else None)  # CUDA maps more than there is
    containment.give_up_rights(holds)
    containment.dumpable(is_dumpable=True)
    channel = Channel(socket.socket(fileno=connection))
    runner = FileProcess(device, pages)
    with contextlib.suppress(Disconnected):
        while True:
            message = channel.receive(None)
            nonce, wish = message.pop("nonce"), message.pop("wish")
            try:
                answer = getattr(runner, wish)(**message) or {}
            except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  the code of a user may raise anything
                answer = {"trouble": f"{type(error).__name__}: {error}"[:LONGEST_TEXT]}
            channel.send({"nonce": nonce, **answer})
    os._exit(0)


class FileProcess:
    """The file of one side, and where its arguments and results lie. Each public method is one wish of the referee."""

    def __init__(self, device: str, descriptor: int) -> None:
        self._device = torch.device(device)
        self._descriptor = descriptor
        self._memory: SharedMemory
        self.function: Callable[..., Any]
        self._arguments: list[list[Any]] = []
        self._results: list[dict[str, torch.Tensor]] = []
        self._last: Any = None
        self._returned: Any = None
        """By the last call of a batch."""
        self._opened: list[str] = []

    def map(self, handle: str, size: int) -> None:
        """Open the memory of the referee."""
        self._arguments, self._results = [], []  # earlier memory stays open: the file may have kept an argument
        self._memory = DeviceMemory(handle, size) if handle else HostMemory(self._descriptor, size)

    def load(self, path: str, text: str, function: str, seed: int) -> None:
        """Import a file, whose text is this, and find its function."""
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)  # tracebacks and Triton read it here
        sys.addaudithook(self._note)
        sys.path.append(str(Path(path).parent))
        module = types.ModuleType(Path(path).stem)
        module.__file__ = path
        sys.modules.setdefault(module.__name__, module)  # for pickles and dataclasses, which look their module up
        seed_all(seed)
        exec(compile(text, path, "exec"), vars(module))  # noqa: S102  the file that was asked for
        found = getattr(module, function, None)
        if not callable(found):
            has = ", ".join(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))
            raise AttributeError(f"{Path(path).name} has no function {function} (it has: {has[:200] or 'none'})")
        self.function = found

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and len(self._opened) < 10_000:
            self._opened.append(arguments[0])

    def opened(self) -> dict[str, Any]:
        """Return the files that were opened or imported; information, which a file can keep to itself."""
        modules = [path for module in list(sys.modules.values()) if isinstance(path := getattr(module, "__file__", None), str)]
        return {"paths": sorted({str(Path(path).absolute()) for path in [*self._opened, *modules]})[:20_000]}

    def make(self, seed: int) -> dict[str, Any]:
        """Call the function with a seed and a device, and describe the arguments that it makes."""
        leaves, structure = _pytree.tree_flatten(self.made(seed))
        values: list[list[Any]] = []  # one for each leaf: empty for a tensor, which lies in memory
        self._last = {}
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) or type(leaf).__module__ == "numpy":
                self._last[str(len(self._last))] = outputs.tensor(leaf, "an argument")
                values.append([])
            elif leaf is None or isinstance(leaf, bool | int | float | str):
                values.append([leaf])
            else:
                raise TypeError(f"an argument is a {type(leaf).__name__}: make tensors, arrays, numbers, text, or trees of these")
        parts = [{**part, "order": _order(one)} for part, one in zip(self._layout(self._last), self._last.values(), strict=True)]
        return {"tree": {"values": values, "structure": _pytree.treespec_dumps(structure)}, "parts": parts}

    def made(self, seed: int) -> list[Any]:
        """Return the arguments that the function makes."""
        seed_all(seed)
        made = self.function(seed, str(self._device))
        return list(made) if isinstance(made, tuple | list) else [made]

    def plan(self, tree: Any, arguments: Sequence[Any], results: Sequence[Any], stride: int, slots: int) -> None:
        """Take note of where arguments and results of each slot lie: dtype, shape and place of every tensor in the first one."""
        starts = [slot * stride for slot in range(slots)]
        self._arguments = [built(tree, [self._tensor(part, start) for part in arguments]) for start in starts]
        self._results = [{part["place"]: self._tensor(part, start) for part in results} for start in starts]

    def _tensor(self, part: Mapping[str, Any], offset: int) -> torch.Tensor:
        return self._memory.tensor(part["offset"] + offset, getattr(torch, part["dtype"]), part["shape"], part["order"])

    def call(self, seed: int, *, wide: bool = False, watch: bool = False) -> dict[str, Any]:
        """Call once with the arguments of the first slot, keep the result, and describe it.

        ``wide``: in float64. ``watch``: keep what the operators selected by instead, where the result is an index.
        """
        arguments = self._arguments[0]
        if wide:
            arguments = _pytree.tree_map_only(
                torch.Tensor, lambda one: one.double() if one.is_floating_point() else one, arguments
            )
        seed_all(seed)

        def parts() -> dict[str, torch.Tensor]:
            with in_float64() if wide else contextlib.nullcontext():
                return self._parts(self.function(*arguments), arguments)

        self._last = watched(parts) if watch else parts()
        self._wait()
        return {"parts": self._layout(self._last)}

    def write(self, results: Sequence[Any]) -> None:
        """Write the result that was kept."""
        for part in results:
            self._tensor(part, 0).copy_(self._last[part["place"]].detach())
        self._wait()

    def batch(self, count: int, seed: int, *, idle: bool = False) -> None:
        """Call with the arguments of the first slots, and write each result before the next call.

        ``idle``: call nothing, and write its last result to all slots in turn, so often: this is the runner's own work.
        """
        function, arguments = self.function, self._arguments
        own = torch.cuda.current_stream() if self._device.type == "cuda" else None
        seed_all(seed)
        for number in range(count):
            slot = number % len(arguments)  # idle, there are more times than slots
            self._last = self._returned = result = self._returned if idle else function(*arguments[slot])
            self._write(result, slot, slot)
            if own is not None and (now := torch.cuda.current_stream()) != own:  # the file made another one current:
                own.wait_stream(now)  # the next call begins when this one has ended, as on one stream
                torch.cuda.set_stream(own)
        self._wait()

    def again(self, slot: int, of: int, *, call: bool) -> None:
        """Write the last result once more, to another slot, whatever became of its arguments. ``call``: call again before."""
        if call:
            self.function(*self._arguments[of])
        self._write(self._last, slot, of)
        self._wait()

    def _write(self, result: Any, slot: int, of: int) -> None:
        places = self._results[slot]
        if type(result) is torch.Tensor and len(places) == 1:
            found: Any = (result,)
        elif type(result) is tuple and len(result) == len(places) and all(type(one) is torch.Tensor for one in result):
            found = result
        else:
            parts = self._parts(result, self._arguments[of])
            if parts.keys() != places.keys():
                raise ValueError(f"it returns {', '.join(parts)}, and the baseline {', '.join(places)}")
            found = [parts[place] for place in places]
        for part, (place, to) in zip(found, places.items(), strict=True):
            if part.shape != to.shape or part.dtype != to.dtype:
                raise ValueError(f"{place} is {outputs.signature(part)}, the baseline's was {outputs.signature(to)}")
            to.copy_(part.detach())

    def _parts(self, result: Any, arguments: Sequence[Any]) -> dict[str, torch.Tensor]:
        """Return a result as tensors by their places; what is no number becomes the digest of its text."""
        if result is None:
            result = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        return {place: self._plain(leaf, place) for place, leaf in outputs.leaves(self._as_torch(result), "output")}

    def _plain(self, leaf: Any, place: str) -> torch.Tensor:
        if isinstance(leaf, bool) or (isinstance(leaf, int) and abs(leaf) < 2**63):
            return torch.tensor(leaf, dtype=torch.bool if isinstance(leaf, bool) else torch.int64)
        part = outputs.part(leaf, place)
        if isinstance(part, torch.Tensor):
            return part
        digest = hashlib.sha256(f"{type(part.value).__name__} {part.value!r}".encode("utf-8", "surrogateescape")).digest()
        return torch.frombuffer(bytearray(digest), dtype=torch.uint8)

    def _as_torch(self, node: Any) -> Any:
        if hasattr(node, "__dlpack__"):
            is_known = isinstance(node, torch.Tensor) or type(node).__module__ == "numpy"
            return node if is_known else torch.utils.dlpack.from_dlpack(node)
        if isinstance(node, Mapping):
            return {key: self._as_torch(value) for key, value in node.items()}
        if isinstance(node, tuple | list) and len(node) <= outputs.JOINED:
            return [self._as_torch(value) for value in node]
        return node

    def _layout(self, parts: Mapping[str, torch.Tensor]) -> list[dict[str, Any]]:
        return [
            {"place": place, "dtype": str(part.dtype).removeprefix("torch."), "shape": list(part.shape)}
            for place, part in parts.items()
        ]

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def _order(made: torch.Tensor) -> list[int]:
    """Return the dimensions of a tensor as they lie in memory: none where it has gaps, or where that is their own order."""
    order = sorted(range(made.dim()), key=made.stride, reverse=True)
    return order if made.permute(order).is_contiguous() and not made.is_contiguous() else []


def built(tree: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
    """Return the arguments that `FileProcess.make` described."""
    following = iter(tensors)
    leaves = [value[0] if value else next(following) for value in tree["values"]]
    return list(_pytree.tree_unflatten(leaves, _pytree.treespec_loads(tree["structure"])))


if __name__ == "__main__":
    main()
