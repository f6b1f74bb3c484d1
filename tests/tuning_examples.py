"""Sample tuning records for tests: a search of sixty evaluations with every kind of end."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np

from ratchet.core.records.verdict import Comparison
from ratchet.tune.records import Configuration, Confirmation, Ending, Evaluation, Session, TuningRecord
from tests import examples

CASE = "attention/training_512"
SPACE: dict[str, tuple[int, ...]] = {
    "BLOCK_M": (64, 128),
    "BLOCK_N": (32, 64, 128),
    "NUM_STAGES": (2, 3, 4, 5, 6),
    "NUM_WARPS": (4, 8),
}
DEFAULT: Configuration = {"BLOCK_M": 64, "BLOCK_N": 64, "NUM_STAGES": 3, "NUM_WARPS": 4}
WINNER: Configuration = {"BLOCK_M": 128, "BLOCK_N": 64, "NUM_STAGES": 4, "NUM_WARPS": 8}
FAILURES: dict[Ending, str] = {
    "resources": "out of resource: shared memory, Required: 278528, Hardware limit: 232448.",
    "compile": "ptxas fatal : (C7602) Insufficient registers (128) to compile instruction",
    "wrong": "wrong result: output 0 differs from the reference by 0.41, past its limit of 0.01",
    "timeout": "prepare took longer than 120 s",
    "crash": "the worker was ended by signal 11",
}
COMMAND = ("ratchet", "tune", CASE, "--time-budget", "3m", "--seed", "1")


def cost_of(configuration: Configuration) -> float:
    """Over the default's; the winner's is 0.813."""
    far = [math.log2(float(configuration[name]) / float(value)) for name, value in WINNER.items()]
    best = sum(weight * abs(each) for weight, each in zip((0.13, 0.05, 0.02, 0.08), far, strict=True))
    return 0.813 * math.exp(best) * (1.0 if configuration != DEFAULT else 1.0 / (0.813 * math.exp(best)))


def evaluation(configuration: Configuration, number: int = 0, outcome: Ending = "correct", **changes: Any) -> Evaluation:
    """One that took ``cost_of`` times 53 µs."""
    made: dict[str, Any] = {"configuration": configuration, "outcome": outcome, "compile_s": 1.4, "wall_s": 2.1}
    made |= {"gpu": "NVIDIA H200 [0]", "worker": "0", "at": examples.STARTED + timedelta(seconds=2 * number)}
    if outcome in ("correct", "dropped"):
        cost = cost_of(configuration)
        made |= {"samples_ms": (round(0.053 * cost, 6),) * 3, "median_ms": 0.053 * cost, "normalised": cost}
        made |= {"reason": "more than 20 % behind after 3 samples"} if outcome == "dropped" else {}
    else:
        made |= {"reason": FAILURES[outcome]}
    return Evaluation(**(made | changes))


def every_configuration() -> list[Configuration]:
    """The default, then all others in an order of chance, the same every time."""
    made: list[Configuration] = [
        {"BLOCK_M": m, "BLOCK_N": n, "NUM_STAGES": s, "NUM_WARPS": w}
        for m in SPACE["BLOCK_M"]
        for n in SPACE["BLOCK_N"]
        for s in SPACE["NUM_STAGES"]
        for w in SPACE["NUM_WARPS"]
    ]
    order = np.random.default_rng(7).permutation(len(made))
    return [DEFAULT, *(made[at] for at in order if made[at] != DEFAULT)]


def evaluations() -> tuple[Evaluation, ...]:
    """All sixty: five kinds of failure, some dropped, the others timed."""
    found = []
    kinds = iter(["resources", "resources", "compile", "wrong", "timeout", "crash"] * 2)
    for number, configuration in enumerate(every_configuration()):
        outcome: Ending = "correct"
        if number % 7 == 5 and configuration != WINNER:
            outcome = next(kinds)  # type: ignore[assignment]
        elif cost_of(configuration) > 1.05:
            outcome = "dropped"
        found.append(evaluation(configuration, number, outcome))
    return tuple(found)


def comparison(ratio: float, half: float = 0.012, **changes: Any) -> Comparison:
    made: dict[str, Any] = {
        "ratio": ratio, "low": ratio * (1 - half), "high": ratio * (1 + half), "confidence": 0.95, "p_value": 0.0001,
        "cliffs_delta": -1.0, "pairs": 12, "spread": 0.004, "detectable": 0.006,
    }  # fmt: skip
    return Comparison(**(made | changes))


def confirmation(configuration: Configuration, ratio: float, config: str = "training_512", **changes: Any) -> Confirmation:
    return Confirmation(configuration=configuration, config=config, comparison=comparison(ratio, **changes))


SECOND: Configuration = WINNER | {"NUM_STAGES": 3}
SESSION = Session(
    started_at=examples.STARTED,
    wall_s=171.4,
    startup_s=6.2,
    command=COMMAND,
    strategy="climb",
    seed=1,
    budget_s=180.0,
    gpus=("NVIDIA H200 [0]",),
    ended="the whole space was tried",
)


def record(**changes: Any) -> TuningRecord:
    """A search that ended with a winner."""
    made: dict[str, Any] = {
        "case": CASE,
        "benchmark": "attention",
        "config": "training_512",
        "workload": examples.WORKLOAD,
        "environment": examples.ENVIRONMENT,
        "head": examples.HEAD,
        "space": SPACE,
        "constraints": ("def fits(BLOCK_M: int, NUM_WARPS: int) -> bool: return BLOCK_M <= 64 * NUM_WARPS",),
        "valid": 60,
        "default": DEFAULT,
        "sessions": (SESSION,),
        "evaluations": evaluations(),
        "confirmations": (confirmation(WINNER, 0.8150), confirmation(SECOND, 0.8320)),
        "others": (
            confirmation(WINNER, 0.93, "inference_4k"),
            confirmation(WINNER, 1.03, "training_1k"),
            Confirmation(configuration=WINNER, config="inference_2k", reason="head, prepare: out of resource: shared memory"),
        ),
        "best": WINNER,
        "verdict": "1.227 times as fast as the default (95 % interval 1.212 to 1.242, 12 pairs).",
    }
    return TuningRecord(**(made | changes))
