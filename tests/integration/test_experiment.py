"""`ratchet experiment` in real repositories: each branch of the decision, what is written, and how every mistake ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.playground import Finished, Playground, commit, wait_until

PIPE = """\
import time

import torch
from ratchet import Workload, benchmark

PREPARE, INFER, ASIDE, SCALE = 0.012, 0.004, 0.012, 2.0


@benchmark(devices=("cpu",))
def pipe(device):
    x = torch.randn(16, 16)

    def prepare():
        time.sleep(PREPARE)
        return x * SCALE

    def infer():
        time.sleep(INFER)
        return x @ x

    def run():
        return prepare() + infer()

    return Workload(run=run, stages={"prepare": prepare, "infer": infer, "aside": lambda: time.sleep(ASIDE)})


TINY = 0.012


@benchmark(devices=("cpu",))
def tiny(device):
    return lambda: time.sleep(TINY) or torch.ones(1)
"""
"""All of its time is waits, which get shorter by far more than a busy core delays their end.

The stage ``aside`` is hidden, as one that runs beside another."""
QUICK = ("--device", "cpu", "--quiet")
FEW = ("--pairs", "8")
"""The fewest of a session, for tests that look at no time."""
TESTS = "python -c \"import sys; text = open('bench/pipe.py').read(); print('1 failed, 2 passed' if 'BUG' in text else '3 passed'); sys.exit('BUG' in text)\""  # noqa: E501  one argument


def started(make: Callable[..., Playground], *words: str) -> Playground:
    place = make({"bench/pipe.py": PIPE})
    done = place.ratchet("experiment", "start", "pipe", *words, *QUICK)
    assert done.code == 0, done.err
    return place


def tried(place: Playground, text: str, *words: str, stage: str = "prepare") -> tuple[Finished, dict[str, Any]]:
    """Run one experiment with this text of the benchmark."""
    (place.repo / "bench/pipe.py").write_text(text, encoding="utf-8")
    pattern = ("--stage", stage, "--pattern", "kernel-fusion")
    done = place.ratchet("experiment", "run", "-m", "tried", *pattern, *words, *QUICK, "--json")
    return done, json.loads(done.out) if done.out else {}


def table(place: Playground) -> list[list[str]]:
    return [line.split("\t") for line in (place.repo / "results/experiments.tsv").read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_a_session_keeps_what_intervals_show(make: Callable[..., Playground]) -> None:
    """The whole call, a hidden stage that is confirmed, no change, failing tests, a wrong result, a crash …"""
    place = started(make, "--tests", TESTS)
    faster = PIPE.replace("PREPARE, INFER, ASIDE, SCALE = 0.012", "PREPARE, INFER, ASIDE, SCALE = 0.001")
    hidden = faster.replace("0.004, 0.012", "0.004, 0.001")
    small = hidden.replace("TINY = 0.012", "TINY = 0.001")
    steps = {
        "e2e": (faster, "prepare", "keep"),
        "stage confirmed": (hidden, "aside", "keep"),
        "micro": (small, "infer", "keep"),
        "nothing": (f"{small}# a comment\n", "infer", "discard"),
        "tests": (f"{small}# BUG\n", "infer", "discard"),
        "wrong": (small.replace("2.0", "2.5"), "infer", "discard"),
        "other work": (small.replace("Workload(run", "Workload(flops=1, run"), "infer", "discard"),
        "crash": (small.replace("import torch", "import torch, not_there", 1), "infer", "crash"),
    }
    for number, (branch, (text, stage, status)) in enumerate(steps.items(), 1):
        done, record = tried(place, text, *(["--micro", "tiny"] if branch == "micro" else []), stage=stage)
        decision = record["decision"]
        expected = "wrong" if branch == "other work" else branch
        assert (record["number"], decision["branch"], decision["status"]) == (number, expected, status), decision
        assert done.code == (0 if status == "keep" else 1)
        assert table(place)[number][11] == status
        if branch in ("e2e", "stage confirmed", "micro", "nothing"):
            assert record["equality"]["bitwise"]
            assert record["calls"] >= 100
            assert [one["name"] for one in record["stages"]] == ["prepare", "infer", "aside"]
    assert [row[9:11] for row in table(place)[1:]] == [["3", "0"]] * 4 + [["2", "1"]] + [["3", "0"]] * 3
    status = json.loads(place.ratchet("experiment", "status", "--json").out)
    assert (status["experiments"], status["kept"], status["luck"]["of"], status["luck"]["best"]) == (8, 3, 4, 1)
    handoff = place.ratchet("experiment", "handoff").out
    assert handoff.rstrip() == (place.repo / "results/HANDOFF.md").read_text(encoding="utf-8").rstrip()
    shown = place.ratchet("experiment", "show", "2").out
    assert "KEEP (stage confirmed)" in shown
    assert "  Note: The whole call " in shown  # hides the gain, or is too noisy to show it
    assert place.ratchet("experiment", "show", "9").sentence == "There is no experiment 9. They are numbered 1 to 8."


@pytest.mark.slow
def test_a_start_prints_the_baseline(make: Callable[..., Playground]) -> None:
    """The profile with lines of the tree, the copies, and the noise of the whole call and of each stage; once a session."""
    place = make({"bench/pipe.py": PIPE})
    refused = place.ratchet("experiment", "run", "-m", "x", "--stage", "prepare", "--pattern", "kernel-fusion", *QUICK)
    assert refused.code == 2
    assert refused.sentence.startswith("There is no session of experiments here, and none begins without a profile.")
    lines = place.ratchet("experiment", "start", "pipe", *QUICK).out.splitlines()
    assert lines[0] == "[gpu baseline] pipe/default: 10 calls after 20 warm-ups, with stacks and shapes"
    assert any(line.startswith("  aten::mm") and "at bench/pipe.py:" in line and "[16, 16]" in line for line in lines)
    noise = lines[lines.index("=== Noise floor: the reference against itself ===") + 1 :]
    assert [line.split(":")[0].strip() for line in noise[:4]] == ["e2e", "prepare", "infer", "aside"]
    asked = lines[lines.index("=== Ten questions before the first change ===") + 1 :][:10]
    assert [line.split(".")[0].strip() for line in asked] == [str(number) for number in range(1, 11)]
    assert any("not in the trace" not in line for line in asked), "the trace of the case answers some"
    again = place.ratchet("experiment", "start", "pipe", *QUICK)
    assert (again.code, again.sentence.startswith("A session on pipe/default is open")) == (2, True)
    header = "\t".join(table(place)[0])
    (place.repo / "old.tsv").write_text(
        f"{header}\n" + "\t".join(["abc1234", *["1"] * 10, "keep", "x", "y"]) + "\n", encoding="utf-8"
    )
    place.ratchet("experiment", "start", "pipe", "--again", "--import", "old.tsv", *QUICK)
    assert [row[0] for row in table(place)] == ["commit", "abc1234"]


@pytest.mark.slow
def test_a_session_of_a_monorepos_project(make: Callable[..., Playground]) -> None:
    """Below a pyproject.toml with settings, these count: session, table and tests belong to that folder, for every subcommand."""
    project = "libs/a"
    text = PIPE.replace("0.012, 0.004, 0.012", "0.0002, 0.0002, 0.0002")
    files = {"pyproject.toml": "[tool.ratchet]\nblock_ms = 5\n", "bench/pipe.py": text, "tests.txt": "1 passed\n"}
    place = make({f"{project}/{name}": content for name, content in files.items()})
    here = {"cwd": place.repo / project}
    begun = place.ratchet("experiment", "start", "pipe", "--tests", "cat tests.txt", *FEW, *QUICK, **here)
    assert begun.code == 0, begun
    (place.repo / project / "tests.txt").write_text("1 failed\n", encoding="utf-8")
    why = ("--stage", "prepare", "--pattern", "kernel-fusion")
    done = place.ratchet("experiment", "run", "-m", "tried", *why, *QUICK, "--json", **here)
    assert json.loads(done.out)["decision"]["branch"] == "tests"
    assert json.loads(place.ratchet("experiment", "status", "--json", **here).out)["experiments"] == 1
    assert json.loads(place.ratchet("experiment", "handoff", "--json", **here).out)["path"] == "results/HANDOFF.md"
    assert not (place.repo / "results").exists()


@pytest.mark.slow
def test_every_mistake_ends_with_one_sentence(make: Callable[..., Playground]) -> None:
    """Nothing changed, no such stage or case, an unknown pattern, a missing benchmark, a spent budget: nothing is recorded."""
    place = started(make, "--minutes", "60", *FEW)
    run = ("experiment", "run", "-m", "x", *QUICK)
    target = ("--stage", "prepare", "--pattern", "kernel-fusion")
    assert place.ratchet(*run, *target).sentence.startswith("Nothing has changed since ")
    (place.repo / "bench/pipe.py").write_text(f"{PIPE}# changed\n", encoding="utf-8")
    stage = place.ratchet(*run, "--stage", "upload", "--pattern", "kernel-fusion")
    assert stage.sentence.startswith("pipe/default has no stage upload: it has prepare, infer, aside, e2e.")
    pattern = place.ratchet(*run, "--stage", "prepare", "--pattern", "something")
    assert pattern.sentence.startswith("The category of the pattern something is not known.")
    micro = place.ratchet(*run, *target, "--micro", "none")
    assert micro.sentence.startswith("No case, benchmark or config is called none.")
    session = place.repo / "results/experiments/session.json"
    record = json.loads(session.read_text(encoding="utf-8"))
    session.write_text(json.dumps({**record, "minutes": 1e-6}), encoding="utf-8")
    assert place.ratchet(*run, *target).sentence.startswith("The budget of 1e-06 minutes is spent.")
    assert len(table(place)) == 1
    nowhere = place.ratchet("experiment", "start", "nothing", "--again", *QUICK)
    assert nowhere.sentence.startswith("No case, benchmark or config is called nothing.")
    commit(place.repo, "no benchmarks", {"bench/pipe.py": ""})
    assert place.ratchet("experiment", "start", "pipe", "--again", *QUICK).code == 2


@pytest.mark.slow
def test_code_that_never_ends_is_a_crash_within_the_time_limit(make: Callable[..., Playground]) -> None:
    """An endless loop in a call, and one in the tests: each is recorded with its reason."""
    place = started(make, "--tests", "python -c 'while True: pass'", "--test-timeout", "2s", *FEW)
    _, tests = tried(place, f"{PIPE}# changed\n")
    assert tests["decision"]["reason"] == "Fix or discard: the tests took more than 2 s."
    session = place.repo / "results/experiments/session.json"
    record = json.loads(session.read_text(encoding="utf-8"))
    session.write_text(json.dumps({**record, "tests": []}), encoding="utf-8")
    _, endless = tried(place, PIPE.replace("return prepare() + infer()", "while True: pass"), "--case-timeout", "10s")
    assert (endless["decision"]["status"], endless["decision"]["branch"]) == ("crash", "crash")
    assert "gave no answer within 10 s" in endless["failure"]


@pytest.mark.slow
def test_a_kill_costs_only_the_experiment_that_ran(make: Callable[..., Playground]) -> None:
    """Earlier lines are whole, and the next experiment has the number of the one that was killed."""
    place = started(make, *FEW)
    before = (place.repo / "results/experiments.tsv").read_bytes()
    reached = place.folder / "reached"
    waits = PIPE.replace("x @ x", f"open({str(reached)!r}, 'w').close() or time.sleep(600)")
    (place.repo / "bench/pipe.py").write_text(waits, encoding="utf-8")
    words = ("experiment", "run", "-m", "x", "--stage", "prepare", "--pattern", "kernel-fusion", *QUICK)
    running = place.start(*words)
    wait_until(lambda: reached.exists() or running.poll() is not None, "nothing was called")
    running.send_signal(signal.SIGKILL)
    running.communicate()
    (place.repo / "bench/pipe.py").write_text(PIPE.replace("0.012", "0.001"), encoding="utf-8")
    assert (place.repo / "results/experiments.tsv").read_bytes() == before
    assert json.loads(place.ratchet(*words, *FEW, "--wait", "5m", "--json").out)["number"] == 1
