"""Runs trusted jobs, each in a fork of a process without torch that has imported them, and tells what memory each took.

`TrustedJobs` is the tests' end; the same file is the server (``python -m tests.trusted_jobs``).
"""

from __future__ import annotations

import gc
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.readers import Readers

ROOT = Path(__file__).parents[1]
PROPOSE = ROOT / ".github" / "scripts" / "propose.py"


@dataclass(frozen=True)
class Use:
    """How a job ended, and what it took."""

    code: int
    out: str
    err: str
    megabytes: int
    """The largest memory of the job's process and of its largest child together: more than it ever took at once."""
    seconds: float
    cpu_seconds: float
    """Of the job and its children."""


class TrustedJobs:
    """A context in which jobs can be run."""

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.trusted_jobs"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def run(self, words: Sequence[str], environ: Mapping[str, str], folder: Path) -> Use:
        """Run ``ratchet words…``, or the script that proposes tuned parameters, in a folder with exactly these variables."""
        with tempfile.TemporaryDirectory() as place:
            usual = {"PATH": os.environ["PATH"], "HOME": place, "TMPDIR": place, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
            order = {"words": list(words), "environ": usual | dict(environ), "folder": str(folder), "place": place}
            assert self._server.stdin
            assert self._server.stdout
            self._server.stdin.write(f"{json.dumps(order)}\n")
            self._server.stdin.flush()
            answer = json.loads(self._server.stdout.readline())
            texts = {name: Path(place, name).read_bytes().decode("utf-8", "replace") for name in ("out", "err")}
            return Use(**texts, **answer)


def _serve() -> None:
    import markdown_it
    import scipy.special

    import ratchet.baseline.cli
    import ratchet.github.baseline_cli
    import ratchet.github.cli
    import ratchet.history.command
    import ratchet.tune.command
    from ratchet import tools
    from ratchet.core.report import markdown
    from ratchet.github import artifact

    assert ratchet.baseline.cli
    assert ratchet.github.baseline_cli
    assert ratchet.github.cli
    assert ratchet.history.command
    assert ratchet.tune.command
    assert tools.records()
    assert markdown_it
    assert scipy.special
    assert "torch" not in sys.modules
    for name in ("github/comment", "cases", "machine", "profiles", "reading", "report"):  # compiled here, for all jobs
        markdown.template(f"{name}.md.j2")
    gc.collect()
    gc.freeze()
    with Readers() as readers:
        artifact.run = readers.run  # type: ignore[assignment]
        _answer(readers)


def _answer(readers: Readers) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        began = time.monotonic()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _run(order, writer, readers)
        os.close(writer)
        with open(reader, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
            told = pipe.read().split()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        megabytes, cpu_seconds = (int(told[0]) // 1024, float(told[1])) if told else (1_000_000, 0.0)
        answer = {"code": status, "megabytes": megabytes, "seconds": time.monotonic() - began, "cpu_seconds": cpu_seconds}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def _run(order: dict[str, Any], writer: int, readers: Readers) -> None:
    """Be the job, and end."""
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    tempfile.tempdir = order["place"]
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(order["place"], name), os.O_WRONLY | os.O_CREAT), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 99
    try:
        code = _main(order["words"])
    except Exception:  # noqa: BLE001  as where Python itself ends: printed, whatever it is
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        job, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        kilobytes = job.ru_maxrss + max(children.ru_maxrss, readers.most_kilobytes)
        cpu_seconds = sum(one.ru_utime + one.ru_stime for one in (job, children)) + readers.cpu_seconds
        os.write(writer, f"{kilobytes} {cpu_seconds}".encode())
        os._exit(code)


def _main(words: list[str]) -> int:
    if words[0] == "propose":
        sys.argv = [str(PROPOSE), *words[1:]]
        try:
            runpy.run_path(str(PROPOSE), run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0)
        return 0
    from ratchet.core.cli import main

    return main(words)


if __name__ == "__main__":
    _serve()
