"""Programs that print much, start others, and are ended with all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ratchet.core.processes import KEPT_BYTES, Output, run

pytestmark = pytest.mark.no_cover


def run_python(code: str, time_limit_s: float = 60) -> tuple[int | None, str]:
    """Run a piece of Python under a guard."""
    ended = run([sys.executable, "-S", "-c", code], environ=os.environ, folder=Path("/"), time_limit_s=time_limit_s)
    return ended.status, ended.output


def printed_by(code: str) -> Output:
    """What a program printed that has ended."""
    output = Output()
    words = [sys.executable, "-c", f"import os\nfrom ratchet.core.processes import begin_section\n{code}"]
    with output.handed_over() as writer:
        subprocess.run(words, stdout=writer, stderr=writer, cwd=Path(__file__).parents[2], check=True)
    return output


def test_only_the_end_of_output_is_kept() -> None:
    """A program that prints a hundred megabytes is not held up, and the end of it is kept."""
    output = printed_by("for _ in range(100):\n    os.write(1, b'x' * 1_000_000)\nos.write(1, b'the end')")
    assert output.text().endswith("xthe end")
    assert len(output.text()) == KEPT_BYTES


@pytest.mark.parametrize("count", [0, 1, 65_536 - 20, 65_536, 1_000_000])
def test_a_section_begins_anew(count: int) -> None:
    """What was printed before a section is forgotten, wherever the pieces that arrive are cut."""
    output = printed_by(
        f"os.write(1, b'x' * {count})\nbegin_section('one')\nos.write(1, b'y' * {count})\nbegin_section('two\\n2')\nprint('z')"
    )
    assert (output.section, output.text()) == ("two 2", "z\n")


def test_output_can_be_read_while_it_is_written() -> None:
    """What has been written is there at once, and a reader is not held up by a program that prints without end."""
    output = Output()
    with output.handed_over() as writer:
        os.write(writer, b"first")
        assert output.text() == "first"
        endless = subprocess.Popen([sys.executable, "-c", "import os\nwhile True:\n    os.write(1, b'x' * 65536)"], stdout=writer)
    try:
        assert "x" in output.text() or endless.poll() is None
    finally:
        endless.kill()
        endless.wait()


@pytest.mark.parametrize(("code", "status"), [("", 0), ("raise SystemExit(3)", 3), ("import os\nos.kill(os.getpid(), 9)", -9)])
def test_a_guard_ends_as_its_command(code: str, status: int) -> None:
    """An exit status and a signal pass through the guard."""
    assert run_python(code)[0] == status


def test_a_command_that_cannot_be_started() -> None:
    """The error of the system is that of the command, not of its guard."""
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        run(["no-such-program"], environ=os.environ, folder=Path("/"), time_limit_s=60)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "time.sleep(600)", "os.kill(os.getpid(), 9)"])
def test_nothing_that_a_command_started_is_left(tmp_path: Path, end: str) -> None:
    """Processes in sessions of their own, of parents that have ended, end with the command, however that ends."""
    note = tmp_path / "pids"
    code = (
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        f"            with open({str(note)!r}, 'a') as file:\n                file.write(f'{{os.getpid()}}\\n')\n"
        "            time.sleep(600)\n"
        "        os._exit(0)\n"
        f"while not os.path.exists({str(note)!r}) or len(open({str(note)!r}).readlines()) < 3:\n    time.sleep(0.01)\n"
    )
    status, _ = run_python(code + end, time_limit_s=10 if "sleep" in end else 60)
    assert status == (0 if not end else None if "sleep" in end else -9)
    pids = note.read_text().split()
    assert len(pids) == 3
    assert [pid for pid in pids if Path("/proc", pid).exists()] == []


def test_a_guard_notices_that_its_parent_was_killed(tmp_path: Path) -> None:
    """After kill -9 of whoever started a command, the command and what it started are gone."""
    note = tmp_path / "pid"
    inner = f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()) + '\\n')\ntime.sleep(600)"
    outer = (
        "import os, sys\nfrom pathlib import Path\nfrom ratchet.core.processes import run\n"
        f"run([sys.executable, '-S', '-c', {inner!r}], environ=os.environ, folder=Path('/'), time_limit_s=600)"
    )
    with subprocess.Popen([sys.executable, "-c", outer], cwd=Path(__file__).parents[2]) as parent:
        deadline = time.monotonic() + 300
        while not note.exists() or not note.read_text().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        parent.kill()
    while Path("/proc", note.read_text().strip()).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
