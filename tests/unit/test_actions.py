"""What a step tells the runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.core.actions import LARGEST_SUMMARY, append_summary
from ratchet.core.errors import OutputError
from ratchet.github.step import write_outputs


def read_as_the_runner(text: str) -> dict[str, str]:
    """Outputs as GitHub's runner reads the file: ``name=value``, or ``name<<end`` and lines up to ``end``."""
    found = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if "<<" in line and ("=" not in line or line.index("<<") < line.index("=")):
            name, end = line.split("<<", 1)
            value = []
            for each in lines:
                if each == end:
                    break
                value.append(each)
            else:
                raise AssertionError("no end")
            found[name] = "\n".join(value)
        elif line:
            name, _, found[name] = line.partition("=")
    return found


@pytest.mark.parametrize(
    "value", ["", "x", "a\nb=c\nd<<e\ne", "evil<<EOF\nEOF\nverdict=passed", "end-" + "0" * 32, "\r\nverdict=x"]
)
def test_no_value_sets_another_output(tmp_path: Path, value: str) -> None:
    """Whatever a value holds, the runner reads just that value."""
    path = tmp_path / "outputs"
    path.write_text("earlier=1\n", encoding="utf-8")
    write_outputs({"verdict": "regressed", "hostile": value, "last": "z"}, {"GITHUB_OUTPUT": str(path)})
    content = path.read_bytes().decode()
    assert read_as_the_runner(content) == {"earlier": "1", "verdict": "regressed", "hostile": value, "last": "z"}


def test_the_end_of_a_value_is_another_one_each_time(tmp_path: Path) -> None:
    """Nobody can know beforehand what ends a value."""
    for name in ("one", "two"):
        write_outputs({"a": "b"}, {"GITHUB_OUTPUT": str(tmp_path / name)})
    assert (tmp_path / "one").read_bytes() != (tmp_path / "two").read_bytes()


def test_without_a_runner_nothing_is_written(tmp_path: Path) -> None:
    """Outside a workflow both do nothing."""
    write_outputs({"a": "b"}, {})
    append_summary("x", {})
    assert list(tmp_path.iterdir()) == []


def test_a_summary_is_cut_where_github_would_show_nothing(tmp_path: Path) -> None:
    """A summary of more than GitHub takes keeps its beginning, between two characters."""
    environ = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    append_summary("first", environ)
    append_summary("→" * LARGEST_SUMMARY, environ)
    content = (tmp_path / "summary").read_bytes()
    assert content.startswith("first\n→→".encode())
    assert LARGEST_SUMMARY - 10 < len(content) < 2**20
    content.decode()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """It is an error that names the variable."""
    with pytest.raises(OutputError, match="GITHUB_OUTPUT"):
        write_outputs({"a": "b"}, {"GITHUB_OUTPUT": str(tmp_path)})
