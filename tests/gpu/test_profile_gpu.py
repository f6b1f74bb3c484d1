"""Profiles on a real GPU: Nsight Compute where it is there and permitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.machine import plan_of
from ratchet.core.records.run import Side
from ratchet.core.report.progress import Progress
from ratchet.explain.cases import trace_cases
from ratchet.explain.ncu import NcuOptions, ProfileError, find_ncu
from ratchet.explain.readers import read
from ratchet.explain.sides import INSTEAD, NO_KERNEL, ProfileRequest, SideProfile, TimeBudget, profile_sides
from tests.integration.playground import HARNESS, PROOF, Playground, commit, new_repository

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

TWICE = """\
import torch
from ratchet import Workload, benchmark

TIMES = 1


@benchmark(configs={"large": {"size": 1 << 25}})
def scale(*, device, size):
    x = torch.randn(size, device=device)
    out = torch.empty_like(x)

    def run():
        for _ in range(TIMES):
            torch.mul(x, 3.0, out=out)
        return out

    return Workload(run=run, reference=lambda: x.double() * 3, dtype="float32", flops=size, bytes=8 * size)
"""


def look(folder: Path, environ: dict[str, str], *cases: str, both_sides: bool = False) -> dict[str, dict[Side, SideProfile]]:
    """Trace cases of this repository in forked workers, and count them in one process a side."""
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    tree = TreeSpec.of(Settings(), HARNESS, checkout=HARNESS, device="cuda", gpu_uuid=uuid)
    trees: dict[Side, TreeSpec] = {"reference": tree, "head": tree} if both_sides else {"head": tree}
    traces = trace_cases(trees, cases, plan_of(Settings(), "cuda"), Progress(), environ)
    request = ProfileRequest(trees, 1, benchmark_environ(environ, tree), folder, TimeBudget(120, traces.import_s))
    return profile_sides(request, dict.fromkeys(cases, NcuOptions()), traces.cases)


def needs_counters(looked: SideProfile) -> None:
    refused = [sentence for sentence in looked.steps_down if "ERR_NVGPUCTRPERM" in sentence or "not installed" in sentence]
    if refused:
        pytest.skip(refused[0])


@pytest.mark.parametrize("case", ["attention/training_512", "normalize/rows_16k"])
def test_counters_of_one_call(case: str, tmp_path: Path) -> None:
    """ncu sees the one launch of the case and nothing of its tuning, with figures, and torch.profiler's view beside it."""
    looked = look(tmp_path, Playground(tmp_path).environ(), case)[case]["head"]
    needs_counters(looked)
    assert looked.profile is not None, looked.steps_down
    assert looked.profile.tool == "ncu", looked.steps_down
    assert looked.steps_down == []
    (only,) = looked.profile.kernels
    assert only.registers
    assert only.duration_s
    assert only.dram_bytes
    assert only.sm_percent
    activity = looked.profile.activity
    assert activity is not None
    assert activity.launches == activity.calls
    assert any(only.function in name for name in activity.kernels)
    assert looked.report
    assert looked.report.stat().st_size > 0


def test_two_cases_share_a_process_on_both_sides(tmp_path: Path) -> None:
    """Two cases under one ncu a side: each has its own launch and no other, from one report that both name; so has each side."""
    cases = ("attention/training_512", "normalize/rows_16k")
    looked = look(tmp_path, Playground(tmp_path).environ(), *cases, both_sides=True)
    needs_counters(looked[cases[0]]["head"])
    names = set()
    for case in cases:
        for one in looked[case].values():
            assert one.steps_down == []
            assert one.profile is not None
            (only,) = one.profile.kernels
            assert only.duration_s
            assert one.profile.activity is not None
            assert any(only.function in name for name in one.profile.activity.kernels)
            names.add((case, only.function))
    assert len(names) == 2
    reports = {one.report for case in cases for one in looked[case].values() if one.report}
    assert len(reports) == 2
    assert all(len(read(report).kernels) == 2 for report in reports)


def test_a_copy_has_no_counters(tmp_path: Path) -> None:
    """A call that launches no kernel is traced, and the report says why there are no counters."""
    looked = look(tmp_path, Playground(tmp_path).environ(), "copy/mib_256")["copy/mib_256"]["head"]
    assert looked.profile is not None, looked.steps_down
    if looked.profile.tool == "torch":
        assert NO_KERNEL in looked.steps_down
        assert looked.profile.activity is not None
        assert looked.profile.activity.copies_s > 0


def test_without_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ncu, torch.profiler's kernel times, launches and gaps are the profile."""

    def nowhere(_environ: object) -> Path:
        raise ProfileError("ncu (Nsight Compute) is not installed.")

    monkeypatch.setattr("ratchet.explain.ncu.find_ncu", nowhere)
    case = "attention/training_512"
    looked = look(tmp_path, Playground(tmp_path).environ(), case)[case]["head"]
    assert looked.profile is not None, looked.steps_down
    assert looked.profile.tool == "torch"
    assert INSTEAD in looked.steps_down
    activity = looked.profile.activity
    assert activity is not None
    assert sum(activity.kernels.values()) > 0
    assert activity.gaps_s is not None
    assert activity.launches == activity.calls


def test_a_check_explains_itself(tmp_path: Path) -> None:
    """A planted extra pass over memory comes with reports of both sides, metrics, findings and the page."""
    environ = Playground(tmp_path).environ()
    try:
        find_ncu(environ)
    except ProfileError as error:
        pytest.skip(str(error))
    new_repository(tmp_path / "repo", {"bench/scale.py": TWICE})
    commit(tmp_path / "repo", "slower", {"bench/scale.py": TWICE.replace("TIMES = 1", "TIMES = 2")})
    play = Playground(tmp_path)
    done = play.finish(play.start("check", "--device", "cuda", *PROOF, env={"RATCHET_PROFILE": "auto"}), 300)
    assert done.code == 1, done
    found = done.report.profiles[0]
    again = play.finish(play.start("profile", "scale", "--device", "cuda", "--compare", "--json"), 120)
    assert again.code == 0, again
    if any("ERR_NVGPUCTRPERM" in sentence for sentence in found.steps_down):
        pytest.skip(found.steps_down[0])
    assert found.steps_down == ()
    assert found.head is not None
    assert found.reference is not None
    assert (len(found.head.kernels), len(found.reference.kernels)) == (2, 1)
    assert found.findings
    for what in ("head.ncu-rep", "reference.ncu-rep", "metrics.csv", "page.png", "page.svg"):
        assert (play.repo / "results" / found.files[what]).stat().st_size > 0
    assert not play.processes()
