"""The controller's end of the process from which the hosts of one device are forked."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ratchet.measure import wire
from ratchet.measure.side import HostHandle, HostOptions
from ratchet.measure.surroundings import of_benchmarks
from ratchet.records.run import Side
from ratchet.subprocesses import Output, end_guard


class Hosts:
    """A host for each tree, all forked from one process that has imported torch: its libraries lie in the same places.

    Where they lie changes the time of code that is bound by the CPU by several per cent (docs/decisions/0007-biases.md).
    Use as a context manager, in a thread that lives as long: when either ends, the hosts, their workers and all that these have
    started are killed.
    """

    def __init__(self, trees: Mapping[Side, Path], options: HostOptions, environ: Mapping[str, str]) -> None:
        self.sides: dict[Side, HostHandle] = {}
        command = _command(options)
        common = Output()  # of what is printed before the hosts are forked
        with contextlib.ExitStack() as held, contextlib.ExitStack() as on_failure:
            descriptors = []
            writer = held.enter_context(common.handed_over())
            for side, tree in trees.items():
                ours, theirs = socket.socketpair()
                on_failure.callback(ours.close)
                held.enter_context(theirs)
                output = Output()
                pair = [theirs.fileno(), held.enter_context(output.handed_over())]
                descriptors += pair
                command += ["--host", side, *map(str, pair), str(tree)]
                self.sides[side] = HostHandle(side, options, wire.Channel(ours), output, common)
            self._child = subprocess.Popen(
                command,
                env=of_benchmarks(environ, options.device, options.threads, options.gpu_uuid),
                cwd=options.logs,  # a relative PYTHONPATH must not find a harness in the tree
                stdin=subprocess.PIPE,  # closed when the controller ends in any way
                stdout=writer,
                stderr=writer,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C reaches the controller alone, which then ends this in order
            )
            on_failure.pop_all()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.sides.values():
            host.close()
        end_guard(self._child)


def _command(options: HostOptions) -> list[str]:
    # -u: what was printed before a crash is not lost in a buffer.
    # -P: the folder this runs in must not offer its own `ratchet`; the harness is always the installed one.
    command = [sys.executable, "-u", "-P", "-m", "ratchet.measure.host", "--checkout", str(options.checkout)]
    command += ["--bench", options.bench, "--device", options.device, "--threads", str(options.threads)]
    for place in options.python_path:
        command += ["--python-path", place]
    return command
