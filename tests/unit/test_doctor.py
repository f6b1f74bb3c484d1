"""Tests of what doctor finds on a machine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.adopt import doctor
from ratchet.adopt.doctor import Check, check_lines, examine
from ratchet.core.cli import main
from ratchet.core.device.environment import ask, program_version
from ratchet.core.device.vendor import Nvidia, NvidiaGpu
from ratchet.core.request import Request
from tests import fake_nvml
from tests.integration.playground import commit, git, new_repository

pytestmark = pytest.mark.no_cover

GIT = Path("git")


def driver(count: int, utilization: int = 0, **answers: Any) -> SimpleNamespace:
    """Some GPUs with an idle or busy guest."""
    usual = {
        "DeviceGetName": lambda handle: "NVIDIA H200",
        "DeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=140 * 2**30, free=2**30),
        "SystemGetDriverVersion": lambda: "580.1",
        "DeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=utilization),
        "DeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=7, usedGpuMemory=None)],
    }
    return fake_nvml.driver(count, **(usual | answers))


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits."""
    new_repository(tmp_path / "repository", {})
    commit(tmp_path / "repository", "two", {})
    return tmp_path / "repository"


@pytest.fixture
def quick_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the child process that imports torch."""
    monkeypatch.setattr(doctor, "check_torch", lambda python: Check("torch", "ok", "2.9"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.mark.usefixtures("quick_torch")
def test_no_gpu(repository: Path) -> None:
    """A machine without a GPU is told that checks run on the CPU, and is not asked about counters or fitness."""
    found = by_name(examine(repository, None, vendor=Nvidia(driver(0))))
    assert found["GPU"] == Check("GPU", "missing", "no NVIDIA driver or no GPU: checks run on the CPU", unfit=True)
    assert " ".join(found) == "Python git repository torch GPU Triton nvcc ncu containment results space"


@pytest.mark.usefixtures("quick_torch")
def test_gpu(repository: Path) -> None:
    """A GPU is named with its memory and driver, and its idle guest is a warning."""
    found = by_name(examine(repository, 1, vendor=Nvidia(driver(2))))
    assert found["GPU"] == Check("GPU", "ok", "GPU 1: NVIDIA H200, 140 GiB, driver 580.1")
    assert found["fitness"] == Check("fitness", "warning", "PID 7 is idle on GPU 1", "Times are valid only while it stays idle.")
    assert "counters" in found


@pytest.mark.usefixtures("quick_torch")
def test_wrong_gpu(repository: Path) -> None:
    """A GPU number that is not there becomes a line, and the other lines still come."""
    found = by_name(examine(repository, 5, vendor=Nvidia(driver(2))))
    assert found["GPU"].state == "missing"
    assert "there are 2 GPUs" in found["GPU"].detail
    assert "space" in found


def test_busy_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU in use says who uses it, and what to do."""
    real = doctor.inspect
    monkeypatch.setattr(doctor, "inspect", lambda gpu: real(gpu, pause=lambda seconds: None))
    (check,) = doctor.check_fitness(NvidiaGpu(driver(1, utilization=90), 0))
    assert check.detail == "PID 7 is computing on GPU 0"
    assert check.cure == "Wait for it or choose another GPU with --gpu."
    free = NvidiaGpu(driver(1, DeviceGetComputeRunningProcesses=lambda handle: []), 0)
    assert doctor.check_fitness(free) == [Check("fitness", "ok", "GPU 0 is free")]


def test_a_broken_card() -> None:
    """A GPU whose memory waits for a repair is unfit; another one is not."""
    assert doctor.check_card(NvidiaGpu(driver(1), 0)).state == "ok"
    check = doctor.check_card(NvidiaGpu(driver(1, DeviceGetRemappedRows=lambda handle: [1, 0, 1, 0]), 0))
    assert (check.unfit, check.detail, check.cure) == (True, "GPU 0: a row of its memory waits to be replaced", "Reset it.")


def test_strict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`doctor --strict` exits 3 where nothing should be measured; a missing GPU matters unless the CPU is asked for."""
    checks = [doctor.Check("torch", "ok", "2.9"), doctor.Check("GPU", "missing", "no GPU", unfit=True)]
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: checks)
    codes = [main(["doctor", *words, "--repo", str(tmp_path)]) for words in ([], ["--strict"], ["--strict", "--device", "cpu"])]
    assert codes == [0, 3, 0]


def test_repositories(repository: Path, tmp_path: Path) -> None:
    """With an earlier commit it is ok; one commit or a shallow clone is a warning; outside one the line says what to do."""
    assert [check.state for check in doctor.check_git(repository)] == ["ok", "ok"]
    new_repository(tmp_path / "first", {})
    assert doctor.check_repository(GIT, tmp_path / "first").state == "warning"
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    shallow = doctor.check_repository(GIT, tmp_path / "shallow")
    assert (shallow.state, "fetch-depth: 0" in shallow.cure) == ("warning", True)
    outside = doctor.check_repository(GIT, tmp_path)
    assert (outside.state, outside.cure) == ("missing", "Go to yours, or make one with `git init`.")
    assert outside.detail == f"{tmp_path} is not inside one"


@pytest.mark.parametrize(
    ("says", "state"),
    [("echo git version 2.19.9", "warning"), ("echo nonsense", "warning"), ("exit 1", "warning"), ("", "missing")],
)
def test_odd_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, state: str) -> None:
    """A git that is too old, or does not tell, is a warning; without git there is one line that says so."""
    if says:
        program(tmp_path, "git", says)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [check.state for check in doctor.check_git(tmp_path)] == [state]


@pytest.mark.parametrize(
    ("says", "state", "detail"),
    [
        ('{"version": "2.9", "cuda": null, "gpu": null}', "ok", "2.9, built without CUDA: checks run on the CPU"),
        ('{"version": "2.9", "cuda": "13.0", "gpu": null}', "warning", "2.9 for CUDA 13.0 sees no GPU: checks run on the CPU"),
        ('noise\n{"version": "2.9", "cuda": "13.0", "gpu": "H200"}', "ok", "2.9 for CUDA 13.0, sees H200"),
        ("[]", "missing", "does not import: no reason given"),
        ("", "missing", "does not import"),
    ],
)
def test_torch(tmp_path: Path, says: str, state: str, detail: str) -> None:
    """torch is judged by what a child process prints last."""
    python = program(tmp_path, "python", f"cat <<'END'\n{says}\nEND")
    check = doctor.check_torch(python)
    assert check.state == state
    assert check.detail.endswith(detail) or detail in check.detail


def test_broken_torch(tmp_path: Path) -> None:
    """A torch that does not import says why in its last line, without control characters."""
    python = program(tmp_path, "python", "printf 'Traceback\\nImportError: \\033[31mlibcuda' >&2; exit 1")
    check = doctor.check_torch(python)
    assert check.state == "missing"
    assert check.detail.endswith("does not import: ImportError: libcuda")


def test_absent_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch or Triton that is not installed is missing, with how to install it."""
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    for check in (doctor.check_torch(Path("unused")), doctor.check_triton()):
        assert check.state == "missing"
        assert check.cure.startswith("Install it")


def test_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvcc is named with version and place; a silent one is a warning, a missing one missing."""
    monkeypatch.setenv("CUDACXX", str(program(tmp_path, "nvcc", "echo 'release 13.0, V13.0.48'")))
    assert doctor.check_nvcc() == Check("nvcc", "ok", f"13.0.48 at {tmp_path / 'nvcc'}")
    program(tmp_path, "nvcc", "exit 1")
    assert doctor.check_nvcc().state == "warning"
    monkeypatch.setenv("CUDACXX", str(tmp_path / "gone"))
    assert doctor.check_nvcc().state == "missing"


def test_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ncu that a profile would use is named with version and place; without one a profile does without counters."""
    monkeypatch.setattr("ratchet.explain.ncu.newest", lambda root, pattern: [])
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert doctor.check_ncu().state == "missing"
    program(tmp_path, "ncu", "echo Version 2025.3.1.0 '(build 3)'")
    assert doctor.check_ncu() == Check("ncu", "ok", f"2025.3.1.0 at {tmp_path / 'ncu'}")


@pytest.mark.parametrize(
    ("params", "capabilities", "state"),
    [
        ("RmProfilingAdminOnly: 0\n", "0000000000000000", "ok"),
        ("Other: 1\nRmProfilingAdminOnly: 1\n", "000001ffffffffff", "ok"),
        ("RmProfilingAdminOnly: 1\n", "00000000a80425fb", "warning"),
        ("Other: 1\n", "0000000000000000", "warning"),
    ],
)
def test_profiling(tmp_path: Path, params: str, capabilities: str, state: str) -> None:
    """Counters are open to all, to administrators by capability (root in a container often is none), closed, or unknown."""
    (tmp_path / "params").write_text(params)
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    check = doctor.check_profiling(tmp_path / "params", tmp_path / "status")
    assert check.state == state
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.cure) == ("closed" in check.detail)
    assert "does not say" in doctor.check_profiling(tmp_path / "none").detail


def test_results(tmp_path: Path) -> None:
    """A results folder may be absent as long as it can be made; a file in its place is no folder."""
    assert doctor.check_results(tmp_path / "a" / "b").state == "ok"
    (tmp_path / "file").write_text("")
    assert doctor.check_results(tmp_path / "file" / "results").state == "missing"


@pytest.mark.usefixtures("quick_torch")
def test_results_are_where_the_settings_say(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder of the repository; an option wins, and settings that cannot be read are a line of their own."""
    (repository / "sub").mkdir()
    (repository / "pyproject.toml").write_text('[tool.ratchet]\nresults = "out"\n')
    monkeypatch.chdir(repository / "sub")
    assert doctor.check_settings(Request(repository / "sub", ())).detail == f"{repository / 'out'} can be written"
    assert by_name(examine(repository / "sub", None, results=Path("there")))["results"].detail.startswith(
        f"{repository / 'sub/there'} "
    )
    (repository / "pyproject.toml").write_text("[tool.ratchet]\nresultz = 1\n")
    found = by_name(examine(repository, None))
    assert (found["settings"].state, "results" in found) == ("warning", False)
    assert "resultz in pyproject.toml: there is no such setting" in found["settings"].detail


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_results(tmp_path: Path) -> None:
    """A folder that cannot be written is missing."""
    tmp_path.chmod(0o555)
    assert doctor.check_results(tmp_path).state == "missing"


@pytest.mark.parametrize(("free", "state"), [(2**30, "warning"), (2**40, "ok")])
def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    """Little free space is a warning."""
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    assert doctor.check_space(tmp_path).state == state


def test_lines() -> None:
    """The text is aligned, with each cure under its line."""
    checks = [
        Check("git", "ok", "2.39"),
        Check("GPU", "missing", "none"),
        Check("repository", "warning", "shallow", "Unshallow it."),
    ]
    assert list(check_lines(checks)) == [
        "ok       git         2.39",
        "missing  GPU         none",
        "warning  repository  shallow",
        "                     → Unshallow it.",
    ]


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("echo git version 2.39.5", "2.39.5"),
        ("echo 'release 13.0, V13.0.48'", "13.0.48"),
        ("echo 'Copyright (c) 2018-2025'; echo 'Version 2025.3.1.0 (build 36398880)'", "2025.3.1.0"),
        ("echo tool 4.5", "4.5"),
        ("echo none", None),
        ("echo version 1.2; exit 1", None),
        ("printf 'version 1.2\\377'", "1.2"),
    ],
)
def test_program_version(tmp_path: Path, says: str, version: str | None) -> None:
    """A program's version is the number that it calls so, if it ends well."""
    assert program_version(program(tmp_path, "tool", says)) == version


def test_program_that_fails(tmp_path: Path) -> None:
    """A program that is absent, is none, or does not end is an answer without a return code."""
    (tmp_path / "text").write_text("")
    waiting = program(tmp_path, "waiting", "exec sleep 60")
    answers: list[Any] = [ask([tmp_path / "gone"]), ask([tmp_path / "text"]), ask(["a\0b"]), ask([waiting], timeout_s=0.1)]
    assert [answer.returncode for answer in answers] == [None] * 4
    assert "gone" in answers[0].stderr


@pytest.mark.parametrize(
    ("held", "state"), [(("pid", "ipc", "net", "mount", "cores", "limits"), "ok"), (("cores", "limits"), "warning")]
)
def test_what_confines_evaluated_files_is_said(held: tuple[str, ...], state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that allows all of it is ok; what is missing is named, with what to do."""
    monkeypatch.setattr("ratchet.lab.child.containment.available", lambda folder: list(held))
    check = doctor.check_containment(Path("/tmp"))
    assert check.state == state
    assert ("goes without pid, ipc, net, mount" in check.detail) == (state == "warning")
    assert bool(check.cure) == (state == "warning")


def test_root_is_told_to_be_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel limits no processes of root, whatever is allowed."""
    monkeypatch.setattr("ratchet.lab.child.containment.available", lambda folder: ["pid", "ipc", "net", "mount", "cores"])
    assert "other than root" in doctor.check_containment(Path("/tmp")).cure
