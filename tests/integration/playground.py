"""Small repositories, and one way to run `ratchet` in them. No test here says how long anything takes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.core.records.files import load
from ratchet.core.records.run import CaseRun, RunRecord
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from tests.warm import WarmRatchet, keep_to_own_cores

HARNESS = Path(__file__).parents[2]
PATIENCE_S = 1200
"""A command that takes longer hangs. One that takes 15 s on an idle machine may take minutes on a busy one."""
PAIRS = 6
QUICK = ("--device", "cpu", "--pairs", str(PAIRS), "--blocks", "2")
"""As few pairs as unchanged code takes, and too few to prove a change."""
PROOF = ("--pairs", "40")
"""As many as a verdict may take: in general six for unchanged code, twenty for what is slower."""
SETTINGS = "[tool.ratchet]\nblock_ms = 10\ntime_identical = true\n"
"""Most tests time code that did not change; `test_identical.py` has those about not timing it."""
LENIENT = ("--gate", "90%", "--improvement", "60%")
"""For tests that are not about the gate: what is planted changes by far more."""

ADDS = """\
import time

import torch
from ratchet import Workload, benchmark

REPEAT = 40


@benchmark(configs={"small": {"size": 2048}}, devices=("cpu",))
def adds(*, device, size):
    x = torch.randn(size, device=device)

    def run():
        out = x + 1
        for _ in range(REPEAT):
            out = out + 1
        time.sleep(REPEAT * 5e-5)
        return out

    return Workload(
        run=run, reference=lambda: x.double() + 1 + REPEAT, dtype="float32", flops=41 * size, bytes=8 * size,
        tolerance={"float32": 1e-3},
    )
"""
"""Nearly all of its 2 ms are a wait, which takes as long on a busy machine as on an idle one, and costs nobody anything."""
SLOW_ADDS = ADDS.replace(
    "    def run():\n",
    "    def run():\n        for _ in range(4 * REPEAT):\n            x + 1\n        time.sleep(4 * REPEAT * 5e-5)\n",
)


@dataclass(frozen=True)
class Finished:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str
    repo: str

    @property
    def report(self) -> ReportRecord:
        return load(Path(self.repo, "results", "report.json"), ReportRecord)

    @property
    def run(self) -> RunRecord:
        return load(Path(self.repo, "results", "current.json"), RunRecord)

    @property
    def markdown(self) -> str:
        return Path(self.repo, "results", "ratchet_report.md").read_text(encoding="utf-8")

    def verdict(self, name: str) -> CaseVerdict:
        return next(case for case in self.report.cases if case.name == name)

    def case(self, name: str) -> CaseRun:
        return next(case for case in self.run.cases if case.name == name)

    def pairs(self, name: str) -> list[int]:
        """The pairs of a case, which both sides have; light ones not among them."""
        head, reference = (
            [one.pair for one in side if not one.is_light] for side in (self.case(name).head, self.case(name).reference)
        )
        assert head == reference
        return head

    def outcomes(self) -> dict[str, Outcome]:
        return {case.name: case.outcome for case in self.report.cases}

    @property
    def sentence(self) -> str:
        """The one line that a command which cannot go on says at its end."""
        last = [line for line in self.err.splitlines() if not line.startswith("More: ratchet explain ")]
        lines = [line for line in last if line.startswith("ratchet: ")]
        assert len(lines) == 1, self.err
        assert last[-1] == lines[0], self.err
        assert "Traceback" not in self.err, self.err
        return lines[0].removeprefix("ratchet: ")


class Playground:
    """A repository with its own temporary folder (so its own lock of the device) and its own cache."""

    warm: WarmRatchet | None = None
    """Runs commands that need no process of their own, once `tests/integration/conftest.py` has started it."""

    def __init__(self, folder: Path, python: Path = Path(sys.executable)) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        self.temp = folder / "tmp"
        self.python = python
        self.temp.mkdir(exist_ok=True)

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        private = ("RATCHET_", "GITHUB_", "ACTIONS_", "RUNNER_", "COV_", "PYTEST_", "GIT_", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        kept |= {"XDG_CACHE_HOME": str(self.folder / "cache"), "HOME": str(self.folder)}
        kept |= {"TMPDIR": str(self.temp), "RATCHET_LOCK_DIR": str(self.temp)}
        # The harness is the one under test; an installed one, editable or not, is found without this.
        path = os.pathsep.join(filter(None, [str(HARNESS / "tests" / "steady"), str(HARNESS), os.environ.get("PYTHONPATH")]))
        kept |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"}
        kept |= {"RATCHET_PROFILE": "never"}  # it takes seconds, and has tests of its own
        return kept | dict(extra or {})

    def start(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        """Start ``ratchet words…`` in the repository."""
        return self.start_python("-m", "ratchet", *words, env=env, **more)

    def start_python(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        prepare: list[Callable[[], None]] = [keep_to_own_cores, heed_signals, *more.pop("prepare", [])]
        settings: dict[str, Any] = {
            "cwd": self.repo,
            "env": self.environ(env),
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "errors": "replace",
            "preexec_fn": lambda: [each() for each in prepare],
        }
        return subprocess.Popen([str(self.python), *words], **(settings | more))

    def start_warm(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start ``python words…`` in a fork of the warm process: one of our modules, or a script after ``-X warm``.

        Its end is that of what is returned.
        """
        assert self.warm is not None
        return self.start_python("-I", "-S", str(HARNESS / "tests" / "warm.py"), str(self.warm.address), *words, env=env)

    def finish(self, child: subprocess.Popen[str], timeout_s: float = PATIENCE_S) -> Finished:
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=30)
            raise AssertionError(f"did not end within {timeout_s} s: {out}\n{err}") from None
        return Finished(child.returncode, out, err, str(self.repo))

    def ratchet(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> Finished:
        """Run ``ratchet words…`` to its end: in a warm process where one is there and nothing asks for a process of its own."""
        environ = self.environ(env)
        if self.warm is None or self.python != Path(sys.executable) or set(more) - {"cwd"} or not _is_usual(env or {}):
            return self.finish(self.start(*words, env=env, **more))
        done = self.warm.run(words, environ, more.get("cwd", self.repo), PATIENCE_S)
        return Finished(done.status, done.out, done.err, str(self.repo))

    def check(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> Finished:
        """A quick check on the CPU that forgives noise."""
        return self.ratchet("check", *QUICK, *LENIENT, *words, env=env, **more)

    def git(self, *words: str) -> str:
        return git(self.repo, *words)

    def commit(self, files: Mapping[str, str], message: str = "change") -> str:
        return commit(self.repo, message, files)

    def processes(self) -> list[int]:
        """Hosts, workers and builds that belong to this playground and are still there."""
        return [pid for pid, told in _process_table() if str(self.temp) in told]

    def assert_clean(self) -> None:
        """No process, no worktree and nothing but the lock is left."""
        wait_until(lambda: not self.processes(), "processes are left")
        left = {path.name for path in self.temp.iterdir()}
        assert not {name for name in left if not re.fullmatch(r"ratchet-[^/]*\.(lock|json)", name)}, left
        assert self.git("worktree", "list", "--porcelain").count("worktree ") == 1


def _is_usual(env: Mapping[str, str]) -> bool:
    """Return whether these variables mean the same to a process that has started already."""
    return not any(name.startswith(("PYTHON", "LD_", "LC_", "LANG", "OMP_", "CUDA_")) for name in env)


def new_repository(folder: Path, files: Mapping[str, str], settings: str = "") -> None:
    """A git repository with one commit of ``files``; results are ignored as the guide says."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "A Test")
    git(folder, "config", "user.email", "test@localhost")
    git(folder, "config", "gc.auto", "0")
    extra = {".gitignore": "results/*\n!results/baseline.json\n__pycache__/\n*.egg-info/\n"}
    commit(folder, "first", {**extra, "pyproject.toml": SETTINGS + settings, **files})


def copy_repository(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)


def commit(folder: Path, message: str, files: Mapping[str, str]) -> str:
    """Write the files (an empty text removes one), commit them, and return the new commit."""
    for name, text in files.items():
        path = folder / name
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            path.unlink()
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *words: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environ | {"GIT_CONFIG_GLOBAL": os.devnull}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def heed_signals() -> None:
    """A command under test can be interrupted, though `nohup` or a shell's `&` have the tests themselves ignore signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_until(condition: Callable[[], object], otherwise: str, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


def only_json(text: str) -> Any:
    """The one JSON document that a text is."""
    return json.loads(text)


def _process_table() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
