"""Pairs for tests of the rule: made up or recorded on a GPU, and the verdict of a check on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ratchet.core.judge.comparison import Pair, compare_pairs, pairs_of
from ratchet.core.judge.drift import Drift
from ratchet.core.judge.evidence import CaseThresholds, session_of, thresholds_for
from ratchet.core.judge.outcome import decide
from ratchet.core.judge.rule import is_decided, looks, looks_for_change, thresholds_of_run
from ratchet.core.records.run import Block, Policy, WorkerSamples
from ratchet.core.records.verdict import Comparison, Outcome
from tests.examples import blocks


def pairs(log_ratios: Iterable[float]) -> list[Pair]:
    """Pairs with these log ratios of head time to reference time, in the sessions of a check; the reference takes 1 ms."""
    return [Pair(float(log), math.exp(log), 1.0, session_of(number)) for number, log in enumerate(log_ratios)]


QUIET = ("attn_1k", "attn_2k", "attn_4k", "attn_512", "copy", "gemm_2k", "gemm_4k", "warm:attn_2k")
"""The cases of tests/data/h200_paired.npz that are not bound by their launch."""


def recorded_pairs(*cases: str) -> dict[str, list[Pair]]:
    """The pairs that were recorded of unchanged code on an H200, from their samples on (tests/data/README.md)."""
    with np.load(Path(__file__).parent / "data" / "h200_paired.npz") as data:
        return {case: pairs_of(_recorded(data[f"{case}|B"]), _recorded(data[f"{case}|A"])) for case in cases}


def _recorded(taken: np.ndarray) -> list[WorkerSamples]:
    """One worker for each pair of an array of (pairs, blocks, samples), in the sessions of a check."""
    return [
        replace(
            blocks(0),
            pair=pair,
            blocks=tuple(
                Block(index=index, position=index, samples_ms=tuple(samples)) for index, samples in enumerate(worker.tolist())
            ),
        )
        for pair, worker in enumerate(taken)
    ]


def bar(policy: Policy | None = None, cases: int = 1, most: int = 100) -> CaseThresholds:
    """What a change must pass in a check of so many cases."""
    return thresholds_for(policy or Policy(), cases, looks_for_change(most))


def looked_at(taken: Sequence[Pair], each: CaseThresholds, most: int = 100, drift: Drift | None = None) -> Comparison:
    """The comparison of a case at the look at which a check stops."""
    for count in looks(most):
        seen = compare_pairs(taken[:count], each.policy.confidence)
        if seen and is_decided(seen, each, drift):
            return seen
    assert seen is not None
    return seen


def outcomes(cases: Mapping[str, Sequence[Pair]], policy: Policy | None = None, most: int = 100) -> dict[str, Outcome]:
    """What a check says of cases whose pairs came in this order."""
    rule = policy or Policy()
    seen = {name: looked_at(taken, bar(rule, len(cases), most), most) for name, taken in cases.items()}
    whole = thresholds_of_run(seen, rule, most)
    return {name: decide(comparison, whole)[0] for name, comparison in seen.items()}
