"""The controller's end of the process from which the hosts of one device are forked."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ratchet.measure import wire
from ratchet.measure.side import COMMON_LOG, HostHandle, HostOptions
from ratchet.measure.surroundings import of_benchmarks
from ratchet.records.run import Side


class Hosts:
    """A host for each tree, all forked from one process that has imported torch: its libraries lie in the same places.

    Where they lie changes the time of code that is bound by the CPU by several per cent (docs/decisions/0007-biases.md).
    Use as a context manager, in a thread that lives as long: when either ends, the hosts and their workers are killed.
    """

    def __init__(self, trees: Mapping[Side, Path], options: HostOptions, environ: Mapping[str, str]) -> None:
        self.sides: dict[Side, HostHandle] = {}
        command = _command(options)
        with contextlib.ExitStack() as held:
            descriptors = []
            for side, tree in trees.items():
                ours, theirs = socket.socketpair()
                descriptors.append(held.enter_context(theirs).fileno())
                command += ["--host", side, str(theirs.fileno()), str(tree)]
                self.sides[side] = HostHandle(side, options, wire.Channel(ours))
            log = held.enter_context((options.logs / COMMON_LOG).open("ab"))
            self._child = subprocess.Popen(
                command,
                env=of_benchmarks(environ, options.device, options.threads, options.gpu_uuid),
                cwd=options.logs,  # a relative PYTHONPATH must not find a harness in the tree
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C reaches the controller alone, which then ends this in order
            )

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.returncode is not None:  # left before: its number may be another process's by now
            return
        for host in self.sides.values():
            host.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


def _command(options: HostOptions) -> list[str]:
    # -u: what was printed before a crash is not lost in a buffer.
    # -P: the folder this runs in must not offer its own `ratchet`; the harness is always the installed one.
    command = [sys.executable, "-u", "-P", "-m", "ratchet.measure.host", "--checkout", str(options.checkout)]
    command += ["--bench", options.bench, "--device", options.device, "--threads", str(options.threads)]
    for place in options.python_path:
        command += ["--python-path", place]
    return [*command, "--logs", str(options.logs)]
