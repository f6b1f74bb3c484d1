"""A host: imports one tree's benchmarks once, never touches CUDA, and forks a worker whenever it is asked.

Run by the controller as ``python -u -P -m ratchet.measure.host``, which imports torch and then forks a host for each tree, whose
libraries are then in the same places. Each host's conversation is on the file descriptor given for it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import importlib.metadata
import importlib.util
import os
import signal
import socket
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ratchet.errors import RatchetError
from ratchet.measure import worker
from ratchet.measure.provenance import Provenance, own_names
from ratchet.measure.registry import Catalogue, discover
from ratchet.measure.tuned import read_tuned
from ratchet.measure.wire import Channel

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="ratchet.measure.host")
    parser.add_argument("--host", nargs=3, action="append", required=True, metavar=("SIDE", "DESCRIPTOR", "TREE"))
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--python-path", action="append", required=True)
    options = parser.parse_args()
    _die_with_parent()
    faulthandler.enable()  # so that the last lines of a worker that crashes say where
    # Threads of linear algebra, which libraries start when they are imported: they repair themselves after a fork.
    warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork\(\)", DeprecationWarning)
    connections = {side: socket.socket(fileno=int(descriptor)) for side, descriptor, _ in options.host}
    for side, _, tree in options.host:
        if os.fork() == 0:
            _die_with_parent()
            own = connections.pop(side)
            _close(connections)
            _write_to(options.logs / f"{side}.log")
            _host(Channel(own), Path(tree).resolve(), options)
            return
    _close(connections)  # who asks a host that has ended must be told so
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _close(connections: Mapping[str, socket.socket]) -> None:
    for each in connections.values():
        each.close()


def _host(channel: Channel, tree: Path, options: argparse.Namespace) -> None:
    checkout = options.checkout.resolve()
    os.chdir(tree)
    # Ahead of everything else, so that the tree's packages win over any installed copy of them.
    sys.path[:0] = [str((tree / place).resolve()) for place in options.python_path if (tree / place).is_dir()]
    provenance = Provenance(tree, checkout, own_names(tree, options.python_path) | own_names(checkout, options.python_path))
    try:
        catalogue = discover(tree, options.bench, options.device)
        tuned = read_tuned(tree / options.bench)
    except RatchetError as error:
        channel.send({"error": error.message, "hint": error.hint})
        return
    channel.send(_listing(catalogue, provenance))
    grounds = worker.Grounds(
        provenance,
        options.device,
        options.threads,
        catalogue.benchmarks,
        {case.name: (case.benchmark, case.parameters) for case in catalogue.cases},
        tuned,
    )
    gc.collect()
    gc.freeze()  # keeps the workers' collector from copying pages they share with this process
    _serve(channel, grounds)


def _listing(catalogue: Catalogue, provenance: Provenance) -> dict[str, Any]:
    return {
        "cases": [vars(case) for case in catalogue.cases],
        "broken": [vars(broken) for broken in catalogue.broken],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": importlib.metadata.version("triton") if importlib.util.find_spec("triton") else None,
        "foreign": provenance.foreign(),
        "touched_cuda": torch.cuda.is_initialized(),
    }


def _serve(channel: Channel, grounds: worker.Grounds) -> None:
    while (received := channel.receive_with_file()) is not None:
        message, descriptor = received
        if message["op"] == "fork" and descriptor is not None:
            pid = os.fork()
            if pid == 0:
                _become_worker(channel, descriptor, Path(message["log"]), grounds)
            os.close(descriptor)
            channel.send({"pid": pid})
        elif message["op"] == "reap":
            channel.send(_reap(int(message["pid"])))


def _become_worker(channel: Channel, descriptor: int, log: Path, grounds: worker.Grounds) -> None:
    _die_with_parent()
    channel.close()
    _write_to(log)
    worker.serve(Channel(socket.socket(fileno=descriptor)), grounds)


def _write_to(log: Path) -> None:
    """Whatever this process prints goes there from now on."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _reap(pid: int) -> dict[str, Any]:
    """Whether a worker has ended, and its wait status if that is known. Waits for nothing: others may want to be forked."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return {"ended": True, "status": None}
    return {"ended": bool(done), "status": os.waitstatus_to_exitcode(status) if done else None}


def _die_with_parent() -> None:
    """Even if the controller is killed outright, nothing of it stays on the GPU."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
