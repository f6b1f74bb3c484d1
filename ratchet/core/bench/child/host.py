"""The program of the hosts: each imports one tree's benchmarks once, never touches CUDA, and forks workers on request.

The controller (`client.Hosts`) runs this module with one JSON argument. It imports torch and then forks a host for each tree,
so that libraries are in the same places in all of them. Each host talks, and prints, to the file descriptors that it is given.

The process that forks the hosts ends when its input is closed, as it is when the controller ends in any way. It then ends every
process that the hosts and workers have started, those that left for a session of their own included.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import select
import socket
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ratchet import tools
from ratchet.core import processes
from ratchet.core.bench.child.loader import LoadedTree, load_tree
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.wire import Channel
from ratchet.core.errors import RatchetError, RecordError
from ratchet.core.records.run import SIDES

gpu_facts, host_code, libraries = tools.part("gpu_facts"), tools.part("host_code"), tools.part("libraries")
_SERVES = b"serves"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
MOST_SETTING = 2000
"""Characters of a setting that are compared between sides."""
ORPHANS_S = 2.0
"""Longest that ending the processes which a worker left behind delays the next worker."""


def main() -> None:
    hosts = json.loads(sys.argv[1])["hosts"]
    trees = [TreeSpec.read(host["tree"]) for host in hosts]
    processes.die_with_parent()  # needed while torch is imported, which takes seconds: nobody reads the input yet
    if select.select([0], [], [], 0)[0]:  # the parent ended before that
        return
    from ratchet.core.bench.child import calls, worker  # noqa: F401  and torch with it, which the hosts share

    calls.seed_all(0)  # torch's first seed imports its other devices, and reads the source files of all who called it
    processes.outlive_parent()
    processes.adopt_orphans()
    faulthandler.enable()  # so that the last lines of a worker that crashes say where
    difference = difference_of(trees)
    # Threads of linear algebra, which libraries start when they are imported: they repair themselves after a fork.
    warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork\(\)", DeprecationWarning)
    for host, tree in zip(hosts, trees, strict=True):
        if os.fork() == 0:
            processes.die_with_parent()
            processes.adopt_orphans()
            _close_files(other for other in hosts if other is not host)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _write_to(host["output"])
            _host(Channel(socket.socket(fileno=host["conversation"])), tree, difference)
            return
    _close_files(hosts)  # otherwise whoever asks a host that has ended waits for ever
    processes.wait_for_end_of_input()
    processes.end_children()
    os._exit(0)  # what Python does otherwise to end a process with torch in it takes half a second


def _close_files(hosts: Iterable[dict[str, Any]]) -> None:
    for host in hosts:
        os.close(host["conversation"])
        os.close(host["output"])


def _host(channel: Channel, spec: TreeSpec, difference: Any) -> None:
    try:
        with _facts(spec, channel) as use:
            tree = load(spec, difference)
            libraries.load_late(spec.late)
    except RatchetError as error:
        channel.send({"error": error.message, "hint": error.hint, "unreadable": isinstance(error, RecordError)})
        return
    processes.begin_section("")
    libraries.load_ahead(tree)
    channel.send(_listing(tree, use))
    host_code.freeze()  # keeps the workers' collector from copying pages they share with this process
    _serve(channel, tree)
    os._exit(0)  # what Python does otherwise to end a process with torch in it takes half a second


def _facts(spec: TreeSpec, channel: Channel) -> contextlib.AbstractContextManager[Any]:
    on_gpu = spec.device == "cuda"
    return gpu_facts.facts_for_imports(spec.path, channel) if on_gpu else contextlib.nullcontext(gpu_facts.CudaUse())


def difference_of(trees: Sequence[TreeSpec]) -> Any:
    """Return what differs between two trees, before either is imported, which may write files; None where nobody asks."""
    both = [tree for tree in trees if tree.identified and tree.path != tree.checkout]  # a checkout may hold an environment
    alone = [tree for tree in trees if tree.identified == "alone"]
    if len(both) < len(SIDES) and not alone:
        return None
    try:
        if alone:
            return host_code.whole(alone[0].path)
        return host_code.compare(both[0].path, both[1].path, both[0].bench, both[0].results)
    except OSError as error:
        return host_code.TreeDifference(unknown=f"the trees cannot be read: {error.strerror}")


def load(spec: TreeSpec, difference: Any = None) -> LoadedTree:
    """Import a tree, and watch what it gets at of the ``difference`` from the other one. Raises as `load_tree`."""
    with tools.part("import_watch").PristineProcess(partial(_states_alone, spec)) as pristine:
        proof = host_code.Proof(difference, spec.path) if difference else None
        tree = load_tree(spec, processes.begin_section)
        if proof:
            proof.imported()
        return replace(tree, proof=proof, states=pristine.states(tree.states))


def _states_alone(spec: TreeSpec, file: str) -> tuple[Any, ...] | None:
    """Import one file of a tree, and return what that changed; None if it cannot be imported by itself."""
    tree = load_tree(spec, processes.begin_section, only=file)
    return None if tree.catalogue.broken else tree.states[file]


def _listing(tree: LoadedTree, use: Any) -> dict[str, Any]:
    import torch

    return {
        # What a file sets holds for its cases: their modules might see it when they are imported.
        "cases": [vars(case) | ({"imports_first": ()} if tree.states.get(case.file) else {}) for case in tree.catalogue.cases],
        "broken": [vars(broken) for broken in tree.catalogue.broken],
        "undeclared": tree.catalogue.undeclared,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": importlib.metadata.version("triton") if importlib.util.find_spec("triton") else None,
        "foreign": tree.provenance.foreign(),
        "changed": tree.changed,
        "threads": tree.threads,
        "touched_cuda": gpu_facts.cuda_has_begun(),
        "cuda_used_at": use.where,
    }


def _serve(channel: Channel, tree: LoadedTree) -> None:
    from ratchet.core.bench.child import worker

    spared = processes.children()  # what the imports started serves all workers
    has_compiler = False
    while (received := channel.receive_with_files()) is not None:
        message, descriptors = received
        if message["op"] == "fork" and len(descriptors) == 2:
            if message["with_compiler"] and not has_compiler:
                libraries.load_compiler(tree.spec.device)
                host_code.freeze()  # as after the imports
                has_compiler = True
            with tree.proof.forking() if tree.proof else contextlib.nullcontext():
                pid = os.fork()
            if pid == 0:
                processes.die_with_parent()
                processes.adopt_orphans()  # those of a worker are its own until it ends; then they become the host's
                channel.close()
                _write_to(descriptors[1])
                worker.serve(Channel(socket.socket(fileno=descriptors[0])), tree)
            for descriptor in descriptors:
                os.close(descriptor)
            spared.add(pid)
            channel.send({"pid": pid})
        elif message["op"] == "import":
            _import_in_successor(channel, tree, message["modules"])
            spared = processes.children()
        elif message["op"] == "reap":
            answer = _reap(int(message["pid"]))
            if answer["ended"]:
                spared.discard(int(message["pid"]))
                processes.end_children(spared, ORPHANS_S)
            channel.send(answer)


def _import_in_successor(channel: Channel, tree: LoadedTree, modules: Sequence[str]) -> None:
    """Import modules in a copy of this process, which then serves in its place: this function returns there.

    If they change anything else in the process, the copy ends, and the function returns here. Either way it sends the answer.
    """
    state = tools.part("process_state")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        processes.die_with_parent()
        processes.adopt_orphans()
        os.close(reader)
        if tree.proof:
            tree.proof.forked(watched=True)
        before, running, began = state.ProcessState(tree.provenance.names), state.left_running(), time.monotonic()
        with _facts(tree.spec, channel):
            libraries.load_late(modules)
        if tree.proof:
            tree.proof.imported()
        seconds = time.monotonic() - began
        found = before.changes_to(state.ProcessState(tree.provenance.names))
        changed = state.names_of(each for each in found if not each.may_be_of_package)
        settings = sorted(_ADDRESS.sub("", f"{each}: {each.new!r}")[:MOST_SETTING] for each in found if each.may_be_of_package)
        changed += tuple(name for name, found in state.left_running().items() if found - running[name])
        changed += ("CUDA, which has begun",) if gpu_facts.cuda_has_begun() else ()
        with open(writer, "wb") as file:  # noqa: PTH123  a descriptor has no path
            file.write(json.dumps({"seconds": seconds, "changed": changed}).encode() if changed else _SERVES)
        if changed:
            os._exit(0)
        host_code.freeze()  # as after the imports of the tree
        channel.send({"seconds": seconds, "settings": settings})
        return
    os.close(writer)
    with open(reader, "rb") as file:  # noqa: PTH123
        said = file.read()
    os.waitpid(pid, 0)  # the copy serves meanwhile, if it said so
    if said == _SERVES:
        os._exit(0)
    channel.send(json.loads(said or b'{"seconds": 0, "changed": ["this process, which ended"]}'))


def _write_to(output: int) -> None:
    """Redirect stdout and stderr of this process to a file descriptor, and close the original."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _reap(pid: int) -> dict[str, Any]:
    """Return whether a worker has ended, and its exit code if that is known."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)  # another thread of the controller may ask for a fork meanwhile
    except ChildProcessError:
        return {"ended": True, "status": None}
    return {"ended": bool(done), "status": os.waitstatus_to_exitcode(status) if done else None}


if __name__ == "__main__":
    main()
