"""Benchmarks that compile with torch.compile."""

from __future__ import annotations

from ratchet.records.verdict import Outcome
from tests.integration.playground import Playground

COMPILED = """\
import time

import torch
from ratchet import Workload, benchmark


def scaled(x):
    time.sleep(0.002)
    return 3 * x


def static(graph, inputs):
    assert not any(isinstance(one, torch.SymInt) for one in inputs), f"compiled for any size: {inputs}"
    return graph.forward


@benchmark(configs={f"n_{n}": {"n": n} for n in (16, 32)}, devices=("cpu",))
def scale(*, device, n):
    x = torch.randn(n, device=device)
    run = torch.compile(scaled, backend=static)
    return Workload(run=lambda: run(x), reference=lambda: x.double() * 3)
"""


def test_each_case_is_compiled_as_in_a_process_of_its_own(play: Playground) -> None:
    """torch.compile makes code for any size once it has seen two: no case's code depends on the cases before it."""
    play.commit({"bench/scale.py": COMPILED})
    play.commit({"bench/scale.py": COMPILED.replace("0.002", "0.0021")})
    done = play.check("scale/*", "--pairs", "2")
    assert set(done.outcomes()) == {"scale/n_16", "scale/n_32"}, done
    assert Outcome.FAILED not in done.outcomes().values(), done
