"""``ratchet profile --read``: what a person and a program get from report files, on a machine without a GPU."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.core.errors import Exit
from ratchet.core.records.profile import CaseProfile
from ratchet.explain.ncu import ProfileError, find_ncu
from ratchet.explain.readers import read, read_report

DATA = Path(__file__).parents[1] / "data" / "profiles"
pytest.importorskip("ncu_report", reason="the reader comes with gpu-ratchet[profile]")


@pytest.fixture
def reports(tmp_path: Path) -> tuple[str, str]:
    """The fast and the slow variant of one kernel."""
    paths = [tmp_path / f"coalescing_{variant}.ncu-rep" for variant in ("good", "bad")]
    for path in paths:
        path.write_bytes(gzip.decompress((DATA / f"{path.name}.gz").read_bytes()))
    return str(paths[0]), str(paths[1])


def ratchet(*words: str, cwd: Path, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ratchet", "profile", "--read", *words]
    return subprocess.run(command, cwd=cwd, env=environ, check=False, capture_output=True, text=True)


def test_one_report(reports: tuple[str, str], tmp_path: Path) -> None:
    """One report gives the figures of its kernels and what stands out."""
    done = ratchet(reports[1], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (Exit.PASS, "")
    assert "NVIDIA H200 (132 SMs), Nsight Compute 2025.3.1.0, 1 kernel" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("  Coalesced"))
    assert row.split() == ["Coalesced", "12.5", "%"]
    assert "reference" not in done.stdout.split("What stands out")[0]


def test_two_reports(reports: tuple[str, str], tmp_path: Path) -> None:
    """Two reports stand beside each other, and the first finding names what was done to the slow one."""
    done = ratchet(*reports, cwd=tmp_path)
    assert done.returncode == Exit.PASS
    row = next(line for line in done.stdout.splitlines() if line.startswith("  Coalesced"))
    assert row.split() == ["Coalesced", "100.0", "%", "12.5", "%", "−87.5", "points"]
    first = next(line for line in done.stdout.splitlines() if line.startswith("1. "))
    assert "oalesc" in first


@pytest.mark.slow
def test_json(reports: tuple[str, str], tmp_path: Path) -> None:
    """With --json there is one record with both sides, the findings, and every metric by its own name."""
    done = ratchet(*reports, "--json", cwd=tmp_path)
    assert done.returncode == Exit.PASS
    profile = CaseProfile.model_validate_json(done.stdout)
    assert profile.reference is not None
    assert profile.head.kernels[0].metrics["gpu__time_duration.sum"] == 250912
    assert profile.findings
    assert {"reference", "head", "findings"} <= json.loads(done.stdout).keys()


@pytest.mark.slow
def test_bad_files(reports: tuple[str, str], tmp_path: Path) -> None:
    """A file that cannot be read gives one sentence on stderr, nothing on stdout, and the exit code of wrong usage."""
    half = tmp_path / "half.ncu-rep"
    half.write_bytes(Path(reports[0]).read_bytes()[:600_000])
    for words in ((str(half),), (str(tmp_path / "missing.ncu-rep"),), (reports[0], str(tmp_path)), (*reports, *reports)):
        done = ratchet(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (Exit.USAGE, "")
        sentence, *page = done.stderr.splitlines()
        assert sentence.startswith("ratchet: ")
        assert page in ([], ["More: ratchet explain files-and-records"])


@pytest.fixture
def without_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which the package cannot be imported, and programs are found in one empty folder only."""
    monkeypatch.setattr("ratchet.explain.ncu.newest", lambda *_: [])
    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / "ncu_report.py").write_text("raise ImportError('no such package')\n", encoding="utf-8")
    return {"PATH": str(folder), "PYTHONPATH": str(folder)}


def test_without_any_reader(reports: tuple[str, str], without_package: dict[str, str]) -> None:
    """Where neither the package nor Nsight Compute is installed, the sentence says which package to install."""
    with pytest.raises(ProfileError, match="is not installed") as caught:
        read(Path(reports[0]), without_package)
    assert "pip install 'gpu-ratchet[profile]'" in caught.value.hint


def test_ncu_itself_reads_where_the_package_is_missing(reports: tuple[str, str], without_package: dict[str, str]) -> None:
    """The pages that ncu exported (a stand-in gives the recorded ones) become the same kernel with the same rules."""
    ncu = Path(without_package["PATH"]) / "ncu"
    body = f"""#!{sys.executable}
import gzip, pathlib, sys
page, output = (sys.argv[sys.argv.index(word) + 1] for word in ("--page", "--log-file"))
recorded = pathlib.Path({str(DATA)!r}) / f"coalescing_bad.{{page}}.csv.gz"
pathlib.Path(output).write_bytes(gzip.decompress(recorded.read_bytes()))
"""
    ncu.write_text(body, encoding="utf-8")
    ncu.chmod(0o755)
    by_module, by_ncu = read(Path(reports[1])), read(Path(reports[1]), without_package)
    assert (by_module.reader, by_ncu.reader) == ("ncu_report", "csv")
    (kernel,), (same,) = by_module.kernels, by_ncu.kernels
    assert (same.name, same.dram_read_bytes) == (kernel.name, kernel.dram_read_bytes)
    assert {rule.message for rule in same.rules} == {rule.message for rule in kernel.rules}


def test_a_module_that_crashes(reports: tuple[str, str], tmp_path: Path) -> None:
    """A native module that dies over a file costs a child process, and the sentence names the signal."""
    (tmp_path / "ncu_report.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", encoding="utf-8")
    with pytest.raises(Exception, match="crashed over it \\(SIGSEGV\\)"):
        read(Path(reports[0]), {**os.environ, "PYTHONPATH": str(tmp_path)})


def test_through_the_command_line_of_ncu(reports: tuple[str, str]) -> None:
    """Nsight Compute's own command line gives the same launches, figures and rules as its module."""
    try:
        ncu = find_ncu(os.environ)
    except ProfileError as error:
        pytest.skip(error.message)
    by_module = read(Path(reports[1]))
    (kernel,) = read_report(Path(reports[1]), ncu, os.environ)
    assert kernel.name == by_module.kernels[0].name
    assert kernel.metrics["dram__bytes_read.sum"] == by_module.kernels[0].dram_read_bytes
    assert {rule.message for rule in kernel.rules} == {rule.message for rule in by_module.kernels[0].rules}
