"""Reads records as the program does that `ratchet.github.artifact` starts, in forks of one process that has imported the same.

A fork reads within the same bounds, of which what is imported takes as much as in the program, and takes a hundredth of its half
second. The program itself is started by `tests/unit/test_artifact.py`, and by each command that a test runs. `Readers` is the
tests' end; the same file is the server (``python -P -m tests.readers SOCKET``).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ratchet.github import reading_child

ROOT = Path(__file__).parents[1]


class Readers:
    """A context in which `run` stands in for `artifact.run`, also in forks of the process that entered it."""

    most_kilobytes = 0
    """The largest memory of any reader so far."""
    cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="ratchet-readers-")
        self._address = f"{self._folder}/socket"
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.readers", self._address],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout
        assert self._server.stdout.readline() == b"ready\n", "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()  # whose end of input ends it
        shutil.rmtree(self._folder)

    def run(self, command: Sequence[str], *, environ: Mapping[str, str], folder: Path, time_limit_s: float) -> Any:
        """Read a record as `ratchet.core.processes.run` of that command would."""
        from ratchet.core.processes import Ended

        assert list(command[:4]) == [sys.executable, "-P", "-m", reading_child.__name__]
        assert environ["OPENBLAS_NUM_THREADS"] == "1"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._address)
            connection.settimeout(time_limit_s)
            order = {"words": list(command[4:]), "folder": str(folder)}
            connection.sendall(f"{json.dumps(order)}\n".encode())
            with connection.makefile(encoding="utf-8") as answers:
                answer = json.loads(answers.readline())
        self.most_kilobytes = max(self.most_kilobytes, answer["kilobytes"])
        self.cpu_seconds += answer["cpu_seconds"]
        return Ended(answer["status"], answer["output"])


def _serve(address: str) -> None:
    """Fork a reader for each connection until the input is closed."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)  # noqa: T201
    while 0 not in select.select([0, listener.fileno()], [], [])[0]:
        connection = listener.accept()[0]
        with connection, connection.makefile(encoding="utf-8") as orders:
            order = json.loads(orders.readline())
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                _read(order, writer)
            os.close(writer)
            with open(reader, encoding="utf-8", errors="replace") as pipe:  # noqa: PTH123  a descriptor has no path
                output = pipe.read()
            _, status, used = os.wait4(pid, 0)
            answer = {"status": os.waitstatus_to_exitcode(status), "output": output, "kilobytes": used.ru_maxrss}
            connection.sendall(f"{json.dumps(answer | {'cpu_seconds': used.ru_utime + used.ru_stime})}\n".encode())


def _read(order: dict[str, Any], writer: int) -> None:
    """Be the program, and end."""
    status = 1
    try:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.closerange(3, 64)
        os.chdir(order["folder"])
        status = reading_child.main(*order["words"])
        sys.stdout.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1])
