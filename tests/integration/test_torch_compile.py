"""Benchmarks that compile with torch.compile, or choose kernels by timing them."""

from __future__ import annotations

from ratchet.records.verdict import Outcome
from tests.integration.playground import Playground

COMPILED = """\
import time

import torch
from ratchet import Workload, benchmark


torch.backends.cudnn.benchmark = True


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
    """torch.compile makes code for any size once it has seen two, and no case's code depends on the cases before it.

    That each process chooses kernels by timing them is said, with what would spare the time.
    """
    play.commit({"bench/scale.py": COMPILED})
    play.commit({"bench/scale.py": COMPILED.replace("0.002", "0.0021")})
    done = play.check("scale/*", "--pairs", "3")
    assert set(done.outcomes()) == {"scale/n_16", "scale/n_32"}, done
    assert Outcome.FAILED not in done.outcomes().values(), done
    assert any(
        text.startswith("Chosen anew in each process") and "TRITON_CACHE_AUTOTUNING=1" in text for text in done.run.warnings
    )
