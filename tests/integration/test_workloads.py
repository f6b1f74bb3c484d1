"""Workloads as people write them, in one check on the CPU: what passes, what fails, and what the report says of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import LENIENT, QUICK, Finished, Playground, commit, new_repository
from tests.once import once

FIVE = """\
import torch, time
from ratchet import benchmark
@benchmark
def add(device):
    x = torch.randn(1 << 10, device=device)
    return lambda: time.sleep(2e-3) or x + 1
"""
KINDS = """\
import time
from dataclasses import dataclass

import numpy as np
import torch

from ratchet import Workload, benchmark

WRONG = 0.0


@dataclass
class Out:
    low: torch.Tensor
    more: dict


def waits(run):
    def waiting():
        time.sleep(2e-3)
        return run()

    return waiting


@benchmark
def in_place(device):
    x = torch.randn(1024, device=device)
    return Workload(run=waits(lambda: x.mul_(1.5)), mutates=(x,), reference=lambda: x.double() * 1.5)


@benchmark
def optimizer(device):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(), torch.nn.Linear(16, 1)).to(device)
    steps, x = torch.optim.AdamW(model.parameters()), torch.randn(8, 16, device=device)

    def run():
        steps.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        steps.step()
        return loss

    return Workload(run=waits(run), mutates=(model, steps))


@benchmark(configs={"small": {"n": 64}}, devices=("cpu",))
def tree(device, n):
    x = torch.randn(n, device=device)

    def of(x):
        return Out(x * 2, {"sums": [x.sum(), None], "count": len(x)})

    return Workload(run=waits(lambda: of(x)), reference=lambda: of(x.double()), flops=n, bytes=12 * n)


@benchmark
def host():
    values = np.random.rand(1000)
    return waits(lambda: {"sorted": np.sort(values), "name": "host"})


@benchmark
def differs(device):
    x = torch.randn(64, device=device)
    return waits(lambda: {"y": x + WRONG})


@benchmark
def undeclared(device):
    x = torch.randn(64, device=device)
    return waits(lambda: x.add_(1))


@benchmark
def lazy(device):
    x = torch.randn(64, device=device)
    return waits(lambda: (value for value in x))


@benchmark
def missing(device):
    x = torch.randn(64, device=device)
    good = {"a": x, "b": x + 1}
    return Workload(run=waits(lambda: {"a": x + 0}), reference=lambda: good)
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One check over all kinds; one run for all workers of pytest-xdist."""
    done: Finished = once(tmp_path_factory, "kinds", _check)
    return done


def _check(folder: Path) -> Finished:
    new_repository(folder / "repo", {"bench/five.py": FIVE, "bench/kinds.py": KINDS})
    commit(folder / "repo", "one result is another", {"bench/kinds.py": KINDS.replace("WRONG = 0.0", "WRONG = 0.5")})
    return Playground(folder).ratchet("check", *QUICK, *LENIENT)


@pytest.mark.parametrize("name", ["add/default", "in_place/default", "optimizer/default", "tree/small", "host/default"])
def test_kind_is_measured_on_both_sides(checked: Finished, name: str) -> None:
    """A benchmark of five lines, one in place, a training step, a dataclass and a host function are timed like any other."""
    verdict, case = checked.verdict(name), checked.case(name)
    assert verdict.outcome not in (Outcome.FAILED, Outcome.UNFIT), verdict
    assert len(case.head) == len(case.reference) > 0
    assert case.workload == case.reference_workload


def test_what_was_checked_without_a_reference_is_said(checked: Finished) -> None:
    """The report and the terminal name the cases whose sides only agree, and within what; the others have no such line."""
    within = {"add/default": "within 1e-4", "optimizer/default": "within 1e-4", "host/default": "within 1e-10"}
    for name, limit in within.items():
        said = f"No expected result is given: both sides agree {limit}, and nothing else was checked."
        assert checked.verdict(name).unchecked == said
        assert said in checked.markdown
        assert said in checked.out
    assert checked.verdict("in_place/default").unchecked is None
    assert checked.verdict("tree/small").unchecked is None
    assert "### Results without a reference" in checked.markdown


def test_types_are_those_of_the_outputs(checked: Finished) -> None:
    """What a workload does not declare stays open, and its type is that of its first output."""
    workloads = {name: checked.case(name).workload for name in ("add/default", "host/default", "tree/small")}
    found = {name: (one.dtype, one.flops, one.bytes, one.clock) for name, one in workloads.items() if one}
    assert found == {
        "add/default": ("float32", None, None, "cpu"),
        "host/default": ("float64", None, None, "cpu"),
        "tree/small": ("float32", 64.0, 768.0, "cpu"),
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("differs", "wrong result: output ['y'] is off by"),
        ("differs", "between the head and the reference; the case has no expected result, so one of the two is wrong"),
        ("undeclared", "If run changes its inputs, name them in mutates=(…) of the Workload"),
        ("lazy", "the output is a generator, whose work is not done yet: return its result"),
        ("missing", "the reference returns output ['b'], run does not: it returns output ['a']"),
    ],
)
def test_what_cannot_pass_fails_with_advice(checked: Finished, name: str, said: str) -> None:
    """A result that is not that of the other side, or that cannot be checked, is FAILED, with its place or a remedy."""
    verdict = checked.verdict(f"{name}/default")
    assert verdict.outcome is Outcome.FAILED
    assert said in verdict.reason
    assert checked.code == 1


def test_a_run_alone_says_that_nothing_was_checked(make: Callable[..., Playground]) -> None:
    """`ratchet run` of a workload without a reference has no side to agree with, says so, and shows no empty columns."""
    done = make({"bench/five.py": FIVE}).ratchet("run", *QUICK)
    assert done.code == 0, done
    assert done.verdict("add/default").unchecked == "No expected result is given: nothing says whether its result is right."
    assert "nothing says whether its result is right" in done.out
    assert "| Case | Time | Peak memory |" in done.markdown
    assert done.case("add/default").errors_before == {}
    assert done.case("add/default").workload is not None


@pytest.mark.slow
def test_a_profile_of_a_call_in_place(make: Callable[..., Playground]) -> None:
    """Profiling by hand calls a workload as it is timed, restored before each call."""
    play = make({"bench/kinds.py": KINDS})
    done = play.ratchet("profile", "optimizer", "--device", "cpu", env={"RATCHET_PROFILE": "auto"})
    assert done.code == 0, done


@pytest.mark.slow
def test_more_memory_than_allowed_fails_a_check(make: Callable[..., Playground]) -> None:
    """The limit of a workload wins over that of the settings; the report says how much both sides take."""
    plain = "return lambda: time.sleep(2e-3) or x + 1"
    limited = FIVE.replace(plain, "return Workload(run=lambda: time.sleep(2e-3) or x + 1{})")
    limited = limited.replace("import benchmark", "import Workload, benchmark")
    play = make(
        {"bench/a.py": limited.format("")},
        {"bench/b.py": limited.replace("def add", "def fits").format(', memory_limit="900GB"')},
    )
    done = play.check("--base", "HEAD", "--time-identical", env={"RATCHET_MEMORY_LIMIT": "1MB"})
    assert done.code == 1, done.out
    assert {name: done.verdict(name).outcome for name in ("add/default", "fits/default")}["add/default"] is Outcome.FAILED
    assert done.verdict("fits/default").outcome is not Outcome.FAILED
    assert "more than its limit of 1.00 MiB; the reference takes" in done.verdict("add/default").reason
