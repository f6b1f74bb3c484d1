"""Running profilers: programs of their names stand in for them, for every way in which they can fail."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from ratchet.core.records.profile import Activity, KernelProfile, Profile
from ratchet.core.records.run import Side
from ratchet.explain import ncu, traces
from ratchet.explain.ncu import ProfileError, Surroundings

pytestmark = pytest.mark.no_cover

OWN = "the case: "
RIGHT = 'import pathlib; pathlib.Path(sys.argv[sys.argv.index("--export") + 1]).write_bytes(b"report")'


def program(folder: Path, body: str, name: str = "ncu") -> Path:
    """A program that runs ``body`` with this Python."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, signal, subprocess, sys, time\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def take(tmp_path: Path, body: str, time_limit_s: float = 300, options: ncu.NcuOptions | None = None) -> Path:
    errors = take_all(program(tmp_path, body), ["head"], tmp_path, time_limit_s, options)
    if error := errors["head"]:
        raise error
    return tmp_path / "head.ncu-rep"


def take_all(
    path: Path, sides: Sequence[Side], folder: Path, time_limit_s: float = 300, options: ncu.NcuOptions | None = None
) -> dict[Side, ProfileError | None]:
    tasks = {side: ncu.NcuTask(["target", "--case", "a/b"], folder / f"{side}.ncu-rep") for side in sides}
    return ncu.take(path, tasks, options or ncu.NcuOptions(), Surroundings(dict(os.environ), folder, time_limit_s), own_error=OWN)


def asked(tmp_path: Path, options: ncu.NcuOptions | None = None) -> str:
    """The words that ncu is called with."""
    said = tmp_path / "said"
    report = take(tmp_path, f"open({str(said)!r}, 'w').write(' '.join(sys.argv[1:]))\n{RIGHT}", options=options)
    assert report.read_bytes() == b"report"
    return said.read_text(encoding="utf-8")


def test_ncu_is_asked_for_one_range_at_real_clocks(tmp_path: Path) -> None:
    """The profiler starts switched off, leaves the clocks alone, looks at one process, and gets the command as it is."""
    words = asked(tmp_path)
    for option in (
        "--set full",
        "--clock-control none",
        "--profile-from-start off",
        "--target-processes application-only",
        "--cache-control all",
        f"--launch-count {ncu.MOST_KERNELS}",
        f"--export {tmp_path / 'head.ncu-rep'}",
    ):
        assert option in words
    assert words.endswith(" target --case a/b")
    assert "--kernel-name" not in words


def test_only_the_wanted_kernels_are_replayed(tmp_path: Path) -> None:
    """Kernels are named by a pattern that holds for their whole bare names, and signs in a name stand for themselves."""
    words = asked(tmp_path, ncu.NcuOptions(kernels=("softmax", "fused.gemm"), launches=34))
    assert r"--kernel-name-base function --kernel-name regex:^(softmax|fused\.gemm)$ --launch-count 34" in words


@pytest.mark.parametrize(
    ("options", "sections"),
    [(ncu.NcuOptions(is_brief=True), ncu.SECTIONS), (ncu.NcuOptions("speed-of-light"), ncu.SPEED_OF_LIGHT)],
)
def test_sections_in_place_of_a_set(tmp_path: Path, options: ncu.NcuOptions, sections: tuple[str, ...]) -> None:
    """Where time is short, the sections that the diagnosis reads stand in for the set; one that ncu dropped has its own."""
    words = asked(tmp_path, options).split()
    assert "--set" not in words
    assert tuple(word for before, word in pairwise(words) if before == "--section") == sections


def test_both_sides_run_at_once(tmp_path: Path) -> None:
    """Each process waits for the other one to have started, so that imports overlap; both leave their reports."""
    body = f"""
import pathlib
mine = pathlib.Path(sys.argv[sys.argv.index("--export") + 1])
mine.with_suffix(".here").touch()
while len(list(mine.parent.glob("*.here"))) < 2:
    time.sleep(0.01)
{RIGHT}
"""
    assert take_all(program(tmp_path, body), ["head", "reference"], tmp_path) == {"head": None, "reference": None}
    assert {path.name for path in tmp_path.glob("*.ncu-rep")} == {"head.ncu-rep", "reference.ncu-rep"}


@pytest.mark.parametrize("heals", [True, False])
def test_a_side_that_finds_the_counters_held_is_run_again_alone(tmp_path: Path, heals: bool) -> None:
    """What the other side may have caused is tried once more without it; what another program causes stays an error."""
    body = f"""
import pathlib
mine = pathlib.Path(sys.argv[sys.argv.index("--export") + 1])
tries = mine.with_suffix(".tries")
tries.open("a").write("x")
if mine.stem == "head" and (len(tries.read_text()) < 2 or not {heals}):
    print("==ERROR== Profiling failed because a driver resource was unavailable.")
    sys.exit(1)
{RIGHT}
"""
    errors = take_all(program(tmp_path, body), ["head", "reference"], tmp_path)
    assert errors["reference"] is None
    assert (errors["head"] is None) is heals
    assert heals or "Another program holds the GPU's counters" in str(errors["head"])
    assert ((tmp_path / "head.tries").read_text(), (tmp_path / "reference.tries").read_text()) == ("xx", "x")


def test_one_side_that_fails_costs_the_other_nothing(tmp_path: Path) -> None:
    """An ncu that crashes on one side leaves the other side's report."""
    body = f"if 'head' in sys.argv[sys.argv.index('--export') + 1]:\n    os.kill(os.getpid(), signal.SIGSEGV)\n{RIGHT}"
    errors = take_all(program(tmp_path, body), ["head", "reference"], tmp_path)
    assert errors["reference"] is None
    assert "ncu crashed (SIGSEGV)" in str(errors["head"])


@pytest.mark.parametrize(
    ("body", "sentence", "cure"),
    [
        (
            "print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters')\n"
            "sys.exit(1)",
            "may not read the GPU's counters (ERR_NVGPUCTRPERM",
            "NVreg_RestrictProfilingToAdminUsers=0, or give the container CAP_SYS_ADMIN",
        ),
        (
            "print('==ERROR== Profiling failed because a driver resource was unavailable.')\nsys.exit(1)",
            "Another program holds the GPU's counters, perhaps DCGM.",
            "dcgmi profile --pause",
        ),
        ("print('half a line', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)", "ncu crashed (SIGSEGV): half a line", ""),
        ("print('half a line')\nsys.exit(139)", "ncu crashed (SIGSEGV): half a line", ""),
        ("print('==ERROR== out of beans')\nprint('bye')\nsys.exit(9)", "ncu failed with status 9: ==ERROR== out of beans", ""),
        ("print('==WARNING== No kernels were profiled.')", "ncu saw no kernel in the call.", "not copies or memsets"),
        ("print('==ERROR== Profiling is not supported on device 0.')\nsys.exit(1)", "does not know the GPU", "with the driver"),
        (
            f"print('{OWN}the case raised OSError: no', file=sys.stderr)\nsys.exit(70)",
            "Under ncu the case raised OSError: no",
            "",
        ),
        ("", "ncu succeeded but wrote no report.", "ncu --version"),
        (RIGHT.replace("report", ""), "ncu succeeded but wrote no report.", "ncu --version"),
    ],
)
def test_each_failure_is_a_sentence(tmp_path: Path, body: str, sentence: str, cure: str) -> None:
    """Whatever leaves no report says what happened and, where there is one, the cure; nothing half-written stays."""
    with pytest.raises(ProfileError) as caught:
        take(tmp_path, body)
    assert sentence in caught.value.message
    assert cure in caught.value.hint


def test_a_report_of_an_earlier_run_is_no_report(tmp_path: Path) -> None:
    """A file of an earlier run is not taken for the report."""
    (tmp_path / "head.ncu-rep").write_bytes(b"of yesterday")
    with pytest.raises(ProfileError):
        take(tmp_path, "sys.exit(3)")
    assert not (tmp_path / "head.ncu-rep").exists()


@pytest.mark.slow
def test_a_hang_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profiler that does not end is killed after its time limit, and so is the process that it profiles."""
    monkeypatch.setattr(ncu, "WRITE_S", 0.0)
    note = tmp_path / "pid"
    body = f"child = subprocess.Popen(['sleep', '600'])\nopen({str(note)!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    with pytest.raises(ProfileError, match="ncu hung: it did not end within 5 s"):
        take(tmp_path, body, time_limit_s=5)
    deadline = time.monotonic() + 300
    while _is_running(int(note.read_text(encoding="utf-8"))):
        assert time.monotonic() < deadline, "what the profiler started is still there"
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_ncu_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ncu on the PATH or where installers put it, the sentence says how to get it; on the PATH it is found."""
    monkeypatch.setattr(ncu, "newest", lambda *_: [])
    with pytest.raises(ProfileError, match=r"is not installed\. Install it with the CUDA toolkit"):
        ncu.find_ncu({"PATH": str(tmp_path)})
    path = program(tmp_path, "")
    assert ncu.find_ncu({"PATH": str(tmp_path)}) == path


def test_the_newest_installation_wins(tmp_path: Path) -> None:
    """Of several installed versions the highest is taken, by number and not by letter."""
    for version in ("2023.3.1", "2025.10.0", "2025.3.1"):
        (tmp_path / version).mkdir()
    assert [path.name for path in ncu.newest(tmp_path, "*")] == ["2025.10.0", "2025.3.1", "2023.3.1"]


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    """A file that is no program is a sentence, too."""
    broken = tmp_path / "ncu"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    assert "ncu cannot be started" in str(take_all(broken, ["head"], tmp_path)["head"])


FINE = KernelProfile(name="softmax(float *)", function="softmax", index=0, duration_s=1e-5, sm_percent=40, memory_percent=80)


def test_the_wanted_kernel_has_to_be_there() -> None:
    """A report without the kernel that takes the time, without any, or without figures is refused, each with its sentence."""
    profile = Profile(tool="ncu", kernels=(FINE,))
    assert ncu.accepted(profile, "softmax") is profile
    assert ncu.accepted(profile, None) is profile
    with pytest.raises(ProfileError, match="lacks gemm, which takes most of the time; it has softmax"):
        ncu.accepted(profile, "gemm")
    with pytest.raises(ProfileError, match="holds no kernel"):
        ncu.accepted(Profile(tool="ncu"), None)
    for lost in ({"duration_s": None}, {"sm_percent": None, "memory_percent": None}):
        with pytest.raises(ProfileError, match="no usable counters for softmax"):
            ncu.accepted(Profile(tool="ncu", kernels=(FINE.model_copy(update=lost),)), "softmax")


def test_the_busiest_kernel() -> None:
    """The kernel to look for is the one with most of the device's time; copies are none."""
    times = {"void at::fill<4, (int)2>(float *)": 1e-6, "void ns::gemm<float>(int)": 5e-6, "Memset (Device)": 1.0}
    assert traces.busiest(Activity(calls=1, wall_s=1, kernels=times)) == "gemm"
    assert traces.busiest(Activity(calls=1, wall_s=1, copies_s=1)) is None
    assert traces.busiest(None) is None


def test_kernels_that_matter() -> None:
    """The longest kernels are chosen up to 95 % of the time, of all templates of a name together; copies are none."""
    times = {"a<1>(int)": 40.0, "a<2>(int)": 20.0, "b": 30.0, "c": 6.0, "d": 4.0, "Memset (Device)": 500.0}
    activity = Activity(calls=2, wall_s=1, kernels=times, ran={"a<1>(int)": 2, "a<2>(int)": 1, "b": 4, "c": 2, "d": 2})
    assert traces.kernel_times(activity) == {"a": 60.0, "b": 30.0, "c": 6.0, "d": 4.0}
    assert traces.that_matter(traces.kernel_times(activity)) == ["a", "b", "c"]
    assert traces.launches_of(activity, ["a", "b"]) == 4
    assert traces.that_matter(traces.kernel_times(Activity(calls=1, wall_s=1, copies_s=1))) == []
    templates = {"a<1>(int)": 7, "a<2>(int)": 2, "a<3>(int)": 1}
    assert traces.launches_by_name(Activity(calls=10, wall_s=1, ran=templates), ["a"]) == {"a": 1}, "one launch, not 0.99…"
