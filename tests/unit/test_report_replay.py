"""What `ratchet compare --replay` prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ratchet.core.records.run import Policy
from ratchet.trust.calibration_report import Simulation, simulation_lines
from ratchet.trust.replay_rule import Rates
from tests import examples

Golden = Callable[[str, str], None]

RATES = Rates(
    any_red=0.0004,
    caught=0.975,
    inconclusive=0.0123,
    pairs_mean=7.26,
    runs=2500,
    red={"attention/training_512": 0.0004, "copy/mib_256": 0.975, examples.HOSTILE: 0.0},
)
SIMULATION = Simulation(
    rates=RATES,
    policy=Policy(regression=0.01),
    pairs=20,
    seed=7,
    planted={"copy/mib_256": 1.015},
    recorded={"attention/training_512": 144, "copy/mib_256": 6, examples.HOSTILE: 12, "gemm/2k": 0},
)


def test_rates_of_drawn_pull_requests(golden: Golden) -> None:
    """What was drawn, the cases, the rates and one sentence of what they mean."""
    golden("replay_simulated.txt", "\n".join([*simulation_lines(SIMULATION), ""]))


def test_rates_without_a_plant() -> None:
    """Where nothing was planted, nothing could be caught."""
    lines = simulation_lines(replace(SIMULATION, rates=replace(RATES, caught=None), planted={}))
    assert lines[-1].startswith("Drawn from these pairs, 0.04 % of pull requests that change nothing are red")
    assert next(line for line in lines if line.startswith("Planted cases caught")).endswith("–")
