"""Results of other harnesses that lie in a repository, and the command that would write them again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ratchet.harness.saved import find_saved
from tests.unit.test_harness_results import DATA

STORED = "Linux-CPython-3.11-64bit"


@pytest.mark.parametrize(
    ("source", "place", "kind", "command"),
    [
        (
            f"pytest-storage/{STORED}",
            f".benchmarks/{STORED}",
            "pytest-benchmark",
            "python -m pytest test_wait.py --benchmark-only --benchmark-json={out}",
        ),
        ("asv", ".asv/results", "asv", "python -m ratchet.harness.run_asv {dir}"),
        (
            "google-benchmark.json",
            "bench/before.json",
            "google-benchmark",
            "./gb --benchmark_out={out} --benchmark_out_format=json --benchmark_repetitions=5",
        ),
        ("nvbench-cpu.json", "before.json", "nvbench", "python bench.py --jsonbin {out}"),
        (
            "codspeed.json",
            ".codspeed/results_1.json",
            "codspeed",
            "env CODSPEED_PROFILE_FOLDER={dir} python -m pytest test_wait.py --codspeed --codspeed-mode walltime",
        ),
        ("hyperfine-named.json", "times.json", "hyperfine", "hyperfine --export-json {out} fast sleep 0.02"),
        ("criterion.json", "criterion.json", "criterion", "sh -c cargo criterion --message-format=json > {out}"),
        ("bencher.json", "metrics/main.json", "bencher", "sh -c COMMAND > {out}"),
    ],
)
def test_saved_results_tell_their_command(source: str, place: str, kind: str, command: str, tmp_path: Path) -> None:
    """A folder that git ignores is looked into as well, if a harness keeps its results there."""
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if (DATA / source).is_dir() else shutil.copy)(DATA / source, tmp_path / place)
    if kind == "nvbench":
        shutil.copytree(DATA / f"{source}-bin", tmp_path / f"{source}-bin")
    tracked = [] if place.startswith(".") else [place]
    (found,) = find_saved(tmp_path, ["package.json", *tracked])
    assert (found.format, " ".join(found.command)) == (kind, command)
    assert all((tmp_path / file).is_file() for file in found.files)


def test_other_files_are_no_results(tmp_path: Path) -> None:
    """Neither are links, and a program elsewhere on another machine is not run here."""
    for name, text in {"package.json": "{}", "data.csv": "a,b\n1,2\n", "broken.json": "{", "list.json": "[1]"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link.json").symlink_to(DATA / "hyperfine.json")
    files = [path.name for path in tmp_path.iterdir()]
    assert find_saved(tmp_path, files) == []
    document = json.loads((DATA / "google-benchmark-plain.json").read_text())
    for executable, first in (("/home/runner/work/k/build/gb", "COMMAND"), (f"{tmp_path}/build/gb", "./build/gb")):
        document["context"]["executable"] = executable
        (tmp_path / "gb.json").write_text(json.dumps(document))
        (found,) = find_saved(tmp_path, ["gb.json"])
        assert found.command[0] == first
