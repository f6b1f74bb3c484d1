"""`ratchet variants --roofline`, as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ratchet.common.rooflines import Roofline
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import load, save
from ratchet.core.records.profile import CaseProfile, Profile, Profiles
from ratchet.core.records.run import Performance, RunRecord, Tree
from tests import examples
from tests.integration.playground import HARNESS, Finished, Playground

STORED = HARNESS / "results" / "baseline.json"
COPY = Performance(**(examples.performance(0.1).model_dump() | {"bandwidth_gb_s": 4100.0, "throughput_gflops": 0.0}))


def recorded(folder: Path, **environment: str) -> Path:
    """A run with an attention and a copy, on an H200 or another GPU."""
    run = examples.run_record()
    workload = examples.WORKLOAD.model_copy(update={"flops": 0.0, "bytes": 410e6, "dtype": "float32"})
    copy = examples.compared(1.0, name="copy/mib", workload=workload, reference_workload=workload, performance=COPY)
    fingerprint = run.environment.fingerprint.model_copy(update=environment)
    seen = run.environment.model_copy(update={"fingerprint": fingerprint})
    save(folder / "run.json", run.model_copy(update={"cases": (*run.cases, copy), "environment": seen}))
    return folder / "run.json"


def profiles(folder: Path, tree: Tree) -> Path:
    kernel = examples.kernel_profile(flops={"tensor_bf16": 40e9, "fp32": 1e9})
    head = Profile(tool="ncu", gpu="NVIDIA H200", kernels=(kernel,))
    found = CaseProfile(case="attention/training_512", head=head, head_tree=tree)
    save(folder / "profiles.json", Profiles(profiles=(found,)))
    return folder / "profiles.json"


def drawn(play: Playground, *words: str, **more: Any) -> Finished:
    done = play.ratchet("roofline", *words, **more)
    assert done.code == 0, done.err
    return done


def test_of_a_baseline(play: Playground, tmp_path: Path) -> None:
    """Without a run the baseline is drawn: pictures, record and a table, in results/roofline."""
    save(play.repo / "results" / "baseline.json", load(STORED, Baseline))
    done = drawn(play)
    assert done.out.splitlines()[0] == "NVIDIA H200: 11 cases."
    assert "matmul/square_4096" in done.out
    assert "results/roofline/roofline.png" in done.out
    made = load(play.repo / "results" / "roofline" / "roofline.json", Roofline)
    assert {point.source for point in made.points} == {"declared"}
    assert {roof.key for roof in made.roofs} >= {"dram measured", "tensor_bf16 measured", "dram datasheet"}
    assert (play.repo / "results" / "roofline" / "roofline.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_of_a_run_with_counters(play: Playground, tmp_path: Path) -> None:
    """The profile of the very code that was timed gives bytes and FLOPs, the benchmark the time; FLOPs not declared are told."""
    place = profiles(tmp_path, examples.HEAD)
    arguments = [str(recorded(tmp_path)), "--profiles", str(place), "--out", str(tmp_path / "out"), "--json"]
    made = Roofline.model_validate_json(drawn(play, *arguments).out)
    (point,) = [each for each in made.points if each.source == "counters"]
    assert (point.bytes, point.flops, point.precision) == (64e6, 40e9, "tensor_bf16")
    assert point.seconds == pytest.approx(62.1e-6)
    assert point.timed_by == "benchmark"
    assert point.of_declared == pytest.approx(40e9 / examples.WORKLOAD.flops)
    assert any(f"attention/training_512 {point.of_declared:.3f}" in note for note in made.notes)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["roofline.json", "roofline.png", "roofline.svg"]


def test_a_case_that_declares_nothing(play: Playground, tmp_path: Path) -> None:
    """Cases without FLOPs, bytes and counters are left out, and a note names them; with nothing else the picture is empty."""
    path = recorded(tmp_path)
    run = load(path, RunRecord)
    open_work = examples.WORKLOAD.model_copy(update={"flops": None, "bytes": None})
    bare = examples.compared(1.0, name="add/default", workload=open_work, reference_workload=open_work, performance=COPY)
    for cases in ((*run.cases, bare), (bare,)):
        save(path, run.model_copy(update={"cases": cases}))
        assert "Not shown: add/default. Declare FLOPs and bytes" in drawn(play, str(path)).out
        made = load(play.repo / "results" / "roofline" / "roofline.json", Roofline)
        assert "add/default" not in [point.case for point in made.points]


def test_counters_of_other_code(play: Playground, tmp_path: Path) -> None:
    """A profile of another commit is not drawn at this one's time, and a note says so."""
    place = profiles(tmp_path, examples.REFERENCE)
    done = drawn(play, str(recorded(tmp_path)), "--profiles", str(place))
    assert "The profile of attention/training_512 is of other code or another GPU" in done.out
    assert "counted" not in done.out


def test_an_unknown_gpu(play: Playground, tmp_path: Path) -> None:
    """A GPU without a datasheet gets the measured roof alone, and the output says so."""
    done = drawn(play, str(recorded(tmp_path, gpu="NVIDIA T4")))
    assert "No datasheet peaks are known for NVIDIA T4, so only measured roofs are drawn." in done.out
    assert " datasheet" not in done.out.replace("No datasheet", "")
    sliced = drawn(play, str(recorded(tmp_path, mig="on")))
    assert "No datasheet peaks are known for a MIG slice of NVIDIA H200" in sliced.out


@pytest.mark.slow
def test_roofs_are_measured_where_none_is_known(play: Playground, tmp_path: Path) -> None:
    """The machine of a run has roofs whatever its benchmarks are called, timed once; those of another machine are not made up."""
    path = play.repo / "results" / "current.json"
    assert play.ratchet("run", "--device", "cpu", "--pairs", "3", "--quiet").code == 0
    run = load(path, RunRecord)
    work = {"flops": 64.0, "bytes": 512.0}
    cases = tuple(
        case.model_copy(update={"workload": case.workload and case.workload.model_copy(update=work)}) for case in run.cases
    )
    save(path, run.model_copy(update={"cases": cases}))
    made = Roofline.model_validate_json(drawn(play, "--json", "--quiet").out)
    assert {roof.key for roof in made.roofs} == {"dram measured", "fp32 measured", "fp64 measured"}
    assert all(point.shares for point in made.points)
    kept = (play.repo / "results" / "roofs.json").read_bytes()
    assert Roofline.model_validate_json(drawn(play, "--json", "--quiet").out).roofs == made.roofs
    assert (play.repo / "results" / "roofs.json").read_bytes() == kept
    other = run.environment.fingerprint.model_copy(update={"cpu": "another"})
    save(path, run.model_copy(update={"environment": run.environment.model_copy(update={"fingerprint": other})}))
    done = drawn(play, "--quiet")
    assert "No roof was measured: these times are of another machine" in done.out


def test_choice_of_cases(play: Playground, tmp_path: Path) -> None:
    """Patterns choose cases; the roofs stay those of the whole run."""
    done = drawn(play, str(recorded(tmp_path)), "training_512", "--json")
    made = json.loads(done.out)
    assert [point["case"] for point in made["points"]] == ["attention/training_512"]
    assert "measured" in {roof["source"] for roof in made["roofs"]}


def test_bad_input(play: Playground, tmp_path: Path) -> None:
    """Whatever is wrong is one sentence and exit 2, and draws nothing."""
    run = str(recorded(tmp_path))
    (tmp_path / "broken.json").write_text('{"schema_version": 1,', encoding="utf-8")
    save(tmp_path / "empty.json", load(Path(run), RunRecord).model_copy(update={"cases": ()}))
    for arguments, said in (
        ([], "Nothing was measured"),
        ([run, "nosuch"], "has no timed case called nosuch"),
        ([run, run], "Name one recorded run"),
        ([str(tmp_path / "none.json")], "does not exist"),
        ([str(tmp_path / "broken.json")], "is not JSON"),
        ([str(tmp_path / "empty.json")], "has no timed case"),
        ([run, "--profiles", str(tmp_path / "none.json")], "does not exist"),
        ([run, "--profiles", run], "unknown field"),
    ):
        done = play.ratchet("roofline", *arguments)
        assert done.code == 2, done.err
        assert said in done.err, arguments
        assert "Traceback" not in done.err
    assert not (play.repo / "results" / "roofline").exists()


def test_without_matplotlib(play: Playground, tmp_path: Path) -> None:
    """Without matplotlib there is the table, and one sentence with the cure."""
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text("import sys; sys.modules['matplotlib'] = None\n", encoding="utf-8")
    done = drawn(play, str(recorded(tmp_path)), env={"PYTHONPATH": os.pathsep.join((str(blocker), str(HARNESS)))})
    assert "attention/training_512" in done.out
    assert "No picture was drawn, because matplotlib is not installed. pip install 'gpu-ratchet[profile]'" in done.err
