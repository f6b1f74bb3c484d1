"""A benchmark that leaves its process changed changes no other one's result, and is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import LENIENT, PROOF, QUICK, Playground

LEAKS = """
import torch
from ratchet import benchmark


@benchmark(devices=("cpu",))
def no_gradients(device):
    torch.set_grad_enabled(False)
    x = torch.ones(8)
    return lambda: x + 1


@benchmark(devices=("cpu",))
def other_defaults(device):
    torch.nn.functional.relu.__defaults__ = (True,)  # nobody looks at that
    x = torch.ones(8)

    def run():
        torch.set_default_dtype(torch.float64)
        return x + 1

    return run
"""
VICTIM = """
import torch
from ratchet import benchmark


@benchmark(devices=("cpu",))
def trains(device):
    assert torch.nn.functional.relu.__defaults__ == (False,)
    weight, x = torch.nn.Parameter(torch.randn(64, 64)), torch.randn(64, 64)
    assert x.dtype == torch.float32

    def run():
        weight.grad = None
        (x @ weight).square().sum().backward()
        return weight.grad

    return run
"""


@pytest.mark.slow
def test_a_new_benchmark_changes_no_other_result(make: Callable[..., Playground]) -> None:
    """A change that only adds benchmarks which leave gradients off and other defaults leaves the rest as it was."""
    play = make({"bench/zz.py": VICTIM}, {"bench/aa.py": LEAKS})
    done = play.ratchet("check", *QUICK, *LENIENT, *PROOF)
    assert done.outcomes() == {
        "no_gradients/default": Outcome.NEW,
        "other_defaults/default": Outcome.NEW,
        "trains/default": Outcome.UNCHANGED,
    }
    assert done.case("trains/default").reference_workload == done.case("trains/default").workload
    assert done.code == 0
    gradients, dtype = (warning for warning in done.run.warnings if "leaves changed" in warning)
    assert gradients.startswith("Head: no_gradients/default (bench/aa.py) leaves changed: grad_enabled (torch settings).")
    assert dtype.startswith("Head: other_defaults/default (bench/aa.py) leaves changed: default_dtype (torch settings).")


@pytest.mark.slow
def test_a_new_file_changes_no_other_result(make: Callable[..., Playground]) -> None:
    """Nor does a file that sets them at its top, whose own cases are measured with them."""
    top = LEAKS.replace(
        "import torch\n", "import torch\n\ntorch.set_default_dtype(torch.float64)\ntorch.set_num_threads(64)\n", 1
    )
    play = make({"bench/zz.py": VICTIM}, {"bench/aa.py": top})
    done = play.ratchet("check", *QUICK, *LENIENT, *PROOF)
    assert done.outcomes()["trains/default"] == Outcome.UNCHANGED
    workload = done.case("no_gradients/default").workload
    assert workload is not None
    assert workload.dtype == "float64"
    assert any(
        warning.startswith("Head: Importing bench/aa.py changes default_dtype (torch settings), num_threads (torch settings).")
        for warning in done.run.warnings
    )
    assert any("sets torch to 64 threads" in warning for warning in done.run.warnings)
