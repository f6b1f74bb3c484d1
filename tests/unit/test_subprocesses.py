"""Programs that print much, start others, and are ended with all of them."""

from __future__ import annotations

import os
import subprocess
import sys
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
