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
from ratchet.explain import readers
from ratchet.explain.ncu import ProfileError
from ratchet.explain.readers import read

DATA = Path(__file__).parents[1] / "data" / "profiles"
ncu_report = pytest.importorskip("ncu_report", reason="the reader comes with gpu-ratchet[profile]")


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


def test_the_module_of_an_installation(reports: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What NVIDIA's installers put there serves where the package is missing."""
    folder = tmp_path / "2025.3.1" / "extras" / "python"
    folder.mkdir(parents=True)
    (folder / "ncu_report").symlink_to(Path(str(ncu_report.__file__)).parent)
    monkeypatch.setattr(readers, "newest", lambda root, _: [folder] if "nsight" in root.name else [])
    monkeypatch.setattr(sys, "executable", sys._base_executable)  # which does not have the package
    assert read(Path(reports[0])).kernels


def test_without_the_package(reports: tuple[str, str], tmp_path: Path) -> None:
    """Where the package is not installed, the sentence says how to get it."""
    (tmp_path / "ncu_report.py").write_text("raise ImportError('no such package')\n", encoding="utf-8")
    with pytest.raises(ProfileError, match="is not installed") as caught:
        read(Path(reports[0]), {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "pip install 'gpu-ratchet[profile]'" in caught.value.hint


def test_a_module_that_crashes(reports: tuple[str, str], tmp_path: Path) -> None:
    """A native module that dies over a file costs a child process, and the sentence names the signal."""
    (tmp_path / "ncu_report.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", encoding="utf-8")
    with pytest.raises(Exception, match="crashed over it \\(SIGSEGV\\)"):
        read(Path(reports[0]), {**os.environ, "PYTHONPATH": str(tmp_path)})
