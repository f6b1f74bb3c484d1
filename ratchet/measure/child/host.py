"""The program of the hosts: each imports one tree's benchmarks once, never touches CUDA, and forks workers on request.

A host can also fork a twin: a copy of itself in which nothing has run, for a second session of pairs.

The controller (`client.Hosts`) runs this module with one JSON argument. It imports torch and then forks a host for each tree,
so that libraries are in the same places in all of them. Each host talks, and prints, to the file descriptors that it is given.

The process that forks the hosts ends when its input is closed, as it is when the controller ends in any way. It then ends every
process that the hosts and workers have started, those that left for a session of their own included.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import select
import socket
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ratchet.errors import RatchetError
from ratchet.measure.child import libraries
from ratchet.measure.child.gpu_facts import CudaUse, cuda_has_begun, facts_for_imports
from ratchet.measure.child.loader import LoadedTree, load_tree
from ratchet.measure.identical import Difference, Proof, compare
from ratchet.measure.tree_spec import TreeSpec
from ratchet.measure.wire import Channel
from ratchet.records.run import SIDES
from ratchet.subprocesses import (
    adopt_orphans,
    begin_section,
    children,
    die_with_parent,
    end_children,
    outlive_parent,
    wait_for_end_of_input,
)

ORPHANS_S = 2.0
"""Longest that ending the processes which a worker left behind delays the next worker."""


def main() -> None:
    hosts = json.loads(sys.argv[1])["hosts"]
    trees = [TreeSpec.read(host["tree"]) for host in hosts]
    die_with_parent()  # needed while torch is imported, which takes seconds: nobody reads the input yet
    if select.select([0], [], [], 0)[0]:  # the parent ended before that
        return
    from ratchet.measure.child import calls, worker  # noqa: F401  and torch with it, which the hosts share

    calls.seed_all(0)  # torch's first seed imports its other devices, and reads the source files of all who called it
    outlive_parent()
    adopt_orphans()
    faulthandler.enable()  # so that the last lines of a worker that crashes say where
    difference = difference_of(trees)
    # Threads of linear algebra, which libraries start when they are imported: they repair themselves after a fork.
    warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork\(\)", DeprecationWarning)
    for host, tree in zip(hosts, trees, strict=True):
        if os.fork() == 0:
            die_with_parent()
            adopt_orphans()
            _close_files(other for other in hosts if other is not host)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _write_to(host["output"])
            _host(Channel(socket.socket(fileno=host["conversation"])), tree, difference)
            return
    _close_files(hosts)  # otherwise whoever asks a host that has ended waits for ever
    wait_for_end_of_input()
    end_children()
    os._exit(0)  # what Python does otherwise to end a process with torch in it takes half a second


def _close_files(hosts: Iterable[dict[str, Any]]) -> None:
    for host in hosts:
        os.close(host["conversation"])
        os.close(host["output"])


def _host(channel: Channel, spec: TreeSpec, difference: Difference | None) -> None:
    answered = facts_for_imports(spec.path, channel) if spec.device == "cuda" else contextlib.nullcontext(CudaUse())
    try:
        with answered as use:
            tree = load(spec, difference)
    except RatchetError as error:
        channel.send({"error": error.message, "hint": error.hint})
        return
    begin_section("")
    libraries.load_ahead(tree)
    channel.send(_listing(tree, use))
    gc.freeze()  # keeps the workers' collector from copying pages they share with this process
    _serve(channel, tree)
    os._exit(0)  # a twin may need what the imports made and would clean up now, such as a temporary folder


def difference_of(trees: Sequence[TreeSpec]) -> Difference | None:
    """Return what differs between two trees, before either is imported, which may write files; None where nobody asks."""
    both = [tree for tree in trees if tree.identified and tree.path != tree.checkout]  # a checkout may hold an environment
    if len(both) < len(SIDES):
        return None
    try:
        return compare(both[0].path, both[1].path, both[0].bench, both[0].results)
    except OSError as error:
        return Difference(unknown=f"the trees cannot be read: {error.strerror}")


def load(spec: TreeSpec, difference: Difference | None = None) -> LoadedTree:
    """Import a tree, and watch what it gets at of the difference from the other one. Raises as `load_tree`."""
    if difference is None:
        return load_tree(spec, begin_section)
    proof = Proof(difference, spec.path)
    tree = replace(load_tree(spec, begin_section), proof=proof)
    proof.imported()
    return tree


def _listing(tree: LoadedTree, use: CudaUse) -> dict[str, Any]:
    import torch

    return {
        "cases": [vars(case) for case in tree.catalogue.cases],
        "broken": [vars(broken) for broken in tree.catalogue.broken],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": importlib.metadata.version("triton") if importlib.util.find_spec("triton") else None,
        "foreign": tree.provenance.foreign(),
        "touched_cuda": cuda_has_begun(),
        "cuda_used_at": use.where,
    }


def _serve(channel: Channel, tree: LoadedTree) -> None:
    spared = children()  # what the imports started serves all workers
    has_compiler = False
    while (received := channel.receive_with_files()) is not None:
        message, descriptors = received
        if message["op"] in ("fork", "twin") and len(descriptors) == 2:
            if message["with_compiler"] and not has_compiler:
                libraries.load_compiler(tree.spec.device)
                gc.freeze()  # as after the imports
                has_compiler = True
            pid = os.fork()
            if pid == 0 and message["op"] == "fork":
                _become_worker(channel, descriptors[0], descriptors[1], tree)
            if pid == 0:  # a twin outlives this process, and ends with the one from which hosts are forked
                channel.close()
                adopt_orphans()
                channel, spared = Channel(socket.socket(fileno=descriptors[0])), set()
                _write_to(descriptors[1])
                continue
            for descriptor in descriptors:
                os.close(descriptor)
            spared.add(pid)
            channel.send({"pid": pid})
        elif message["op"] == "reap":
            answer = _reap(int(message["pid"]))
            if answer["ended"]:
                spared.discard(int(message["pid"]))
                end_children(spared, ORPHANS_S)
            channel.send(answer)


def _become_worker(channel: Channel, conversation: int, output: int, tree: LoadedTree) -> None:
    from ratchet.measure.child import worker

    die_with_parent()
    adopt_orphans()  # those of a worker are its own until it ends; then they become the host's
    channel.close()
    _write_to(output)
    worker.serve(Channel(socket.socket(fileno=conversation)), tree)


def _write_to(output: int) -> None:
    """Redirect stdout and stderr of this process to a file descriptor, and close the original."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _reap(pid: int) -> dict[str, Any]:
    """Return whether a worker has ended, and its exit code if that is known.

    Never waits: another thread of the controller may ask for a fork meanwhile.
    """
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return {"ended": True, "status": None}
    return {"ended": bool(done), "status": os.waitstatus_to_exitcode(status) if done else None}


if __name__ == "__main__":
    main()
