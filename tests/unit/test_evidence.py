"""How often chance alone would move the pairs this far."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ratchet.stats.evidence import chance, chance_apart

CHECKS = Path(__file__).parents[1] / "data" / "h200_checks.json.gz"
RATIOS = st.lists(st.floats(min_value=-0.5, max_value=0.5), min_size=2, max_size=30)


def test_it_is_students_t() -> None:
    """Without rogue pairs it is the one-sided t-test that scipy has."""
    logs = [0.031, 0.034, 0.036, 0.029, 0.035, 0.033, 0.032, 0.037]
    assert chance(logs) == pytest.approx(stats.ttest_1samp(logs, 0, alternative="greater").pvalue)


def test_apart_is_welchs_t() -> None:
    """For two sides measured apart it is Welch's test."""
    a, b = [0.1, 0.12, 0.11, 0.13], [0.0, 0.02, 0.01, 0.03, 0.05]
    assert chance_apart(a, b) == pytest.approx(stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue)


@given(RATIOS)
def test_swapping_sides_changes_nothing(logs: list[float]) -> None:
    """Slower by so much is as likely by chance as faster by so much."""
    assert chance([-x for x in logs]) == pytest.approx(chance(logs))
    assert 0 <= chance(logs) <= 0.5


@given(RATIOS, st.randoms())
def test_order_of_pairs_does_not_matter(logs: list[float], random) -> None:
    """Pairs have no order."""
    shuffled = logs[:]
    random.shuffle(shuffled)
    assert chance(shuffled) == pytest.approx(chance(logs), rel=1e-6, abs=1e-12)


def test_one_rogue_pair_hides_nothing() -> None:
    """A pair in which the host stalled leaves the evidence of the other seven."""
    logs = [0.051, 0.049, 0.050, 0.052, 0.048, 0.050, 0.051]
    assert chance([*logs, 0.6]) < 1e-6
    assert chance([*logs, -0.6]) < 1e-6


def test_two_rogue_pairs_are_no_exception() -> None:
    """Two of eight pairs far off are part of what happens here, and make the evidence weak."""
    assert chance([0.051, 0.049, 0.050, 0.052, 0.048, 0.050, 0.6, 0.5]) > 0.01


def test_too_little_is_no_evidence() -> None:
    """One pair proves nothing; equal pairs are not infinite evidence; no difference at all is even odds."""
    assert chance([0.5]) == 1.0
    assert chance_apart([0.5], [0.1, 0.2]) == 1.0
    assert 0 < chance([0.05] * 3) < 1e-6
    assert chance([0.0] * 8) == pytest.approx(0.5)


def test_recorded_pairs_of_unchanged_code_give_no_evidence_too_often() -> None:
    """Of 3,000 draws of 8 recorded pairs, hardly more than the 2 in a thousand that two directions allow look like evidence."""
    rng = np.random.default_rng(5)
    pools: dict[str, list[float]] = {}
    for check in json.loads(gzip.decompress(CHECKS.read_bytes())):
        for name, case in check["cases"].items():
            pools.setdefault(name, []).extend(pair["log_ratio"] for pair in case["pairs"])
    seen = [chance(list(rng.choice(pool, 8))) <= 0.001 for pool in pools.values() for _ in range(3000 // len(pools))]
    assert len(seen) > 2900
    assert math.fsum(seen) / len(seen) <= 0.004
