"""Noise that pairs of unchanged code may show, as generators, for ``python research/adversary.py``.

Each takes a random generator and a number of cases, and gives log ratios of shape (cases, `PAIRS`), in the order in which the
pairs are taken. The first eight pairs are the first session; from there on all processes are new.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.judge.sequential import LOOKS
from ratchet.records.run import SESSION_PAIRS

PAIRS = LOOKS[-1]

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]


@dataclass(frozen=True)
class Attack:
    """A noise, and whether the rule promises to hold under it."""

    name: str
    noise: Noise
    beyond: bool = False
    """Stronger than what a single run can tell from a change: such a run may be inconclusive, but should not be red."""


def normal(sd: float) -> Noise:
    return lambda rng, cases: rng.normal(0, sd, (cases, PAIRS))


def coin(by: float, sd: float = 0.003) -> Noise:
    """One process of each pair, chosen by a fair coin, is slower by ``by``."""
    return lambda rng, cases: (
        np.where(rng.random((cases, PAIRS)) < 0.5, 1, -1) * math.log1p(by) + rng.normal(0, sd, (cases, PAIRS))
    )


def exponential(scale: float) -> Noise:
    """Each process is slower by an exponential amount: a host that is now and then late."""
    return lambda rng, cases: rng.exponential(scale, (cases, PAIRS)) - rng.exponential(scale, (cases, PAIRS))


def modes(apart: float, stays: float = 0.0, sd: float = 0.003, restart: bool = False) -> Noise:
    """Each process runs in one of two modes, and is in that of its side's process before it with probability ``stays``.

    ``restart``: new processes begin in a mode of their own, whatever the earlier ones were in.
    """

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        log_ratios = rng.normal(0, sd, (cases, PAIRS))
        for sign in (1, -1):
            slow = rng.random(cases) < 0.5
            for pair in range(PAIRS):
                fresh = rng.random(cases) < 0.5
                keeps = (rng.random(cases) < stays) & ~(restart and pair == SESSION_PAIRS)
                slow = np.where(keeps, slow, fresh)
                log_ratios[:, pair] += sign * slow * math.log1p(apart)
        return log_ratios

    return draw


def autoregressive(rho: float, sd: float) -> Noise:
    """Each pair remembers ``rho`` of the pair before it, through the restart too."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        log_ratios = rng.normal(0, sd, (cases, PAIRS))
        for pair in range(1, PAIRS):
            log_ratios[:, pair] = rho * log_ratios[:, pair - 1] + math.sqrt(1 - rho**2) * log_ratios[:, pair]
        return log_ratios

    return draw


def offset(between: float, sd: float = 0.003) -> Noise:
    """All pairs of a session share an offset, as where processes lie otherwise in memory."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        own = np.repeat(rng.normal(0, between, (cases, 2)), [SESSION_PAIRS, PAIRS - SESSION_PAIRS], axis=1)
        return np.asarray(own + rng.normal(0, sd, (cases, PAIRS)))

    return draw


def outliers(share: float, size: float, sd: float = 0.003, sign: int = 0) -> Noise:
    """A share of the pairs is off by the factor ``size``: on a side chosen by a coin, or always the same one (``sign``)."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        hit = rng.random((cases, PAIRS)) < share
        signs = np.where(rng.random((cases, PAIRS)) < 0.5, 1, -1) if sign == 0 else sign
        return np.asarray(rng.normal(0, sd, (cases, PAIRS)) + hit * signs * math.log(size))

    return draw


def student(dof: float, scale: float) -> Noise:
    return lambda rng, cases: scale * rng.standard_t(dof, (cases, PAIRS))


def bursts(length: int, by: float, every: int, sd: float = 0.003) -> Noise:
    """A neighbour slows some pairs in a row, one side of each more than the other, which a coin chooses anew each time."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        log_ratios = rng.normal(0, sd, (cases, PAIRS))
        for _ in range(PAIRS // every):
            start = rng.integers(0, PAIRS, cases)
            inside = (np.arange(PAIRS) >= start[:, None]) & (np.arange(PAIRS) < start[:, None] + length)
            log_ratios += inside * rng.choice((-1, 1), (cases, PAIRS)) * math.log1p(by)
        return log_ratios

    return draw


def skewed(scale: float) -> Noise:
    """Log-normal delays of each process: most are small, a few are huge."""
    return lambda rng, cases: (
        np.log1p(scale * rng.lognormal(0, 1.5, (cases, PAIRS))) - np.log1p(scale * rng.lognormal(0, 1.5, (cases, PAIRS)))
    )


def walk(step: float, sd: float = 0.003) -> Noise:
    """The ratio wanders off by a random walk, which begins anew with new processes."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        steps = rng.normal(0, step, (cases, PAIRS))
        steps[:, 0] = 0
        first, later = np.cumsum(steps[:, :SESSION_PAIRS], axis=1), np.cumsum(steps[:, SESSION_PAIRS:], axis=1)
        return np.asarray(np.concatenate((first, later), axis=1) + rng.normal(0, sd, (cases, PAIRS)))

    return draw


def changing_scale(sd: float, ratio: float) -> Noise:
    """Quiet pairs and restless ones take turns."""
    scale = np.where(np.arange(PAIRS) // 3 % 2 == 0, sd, sd * ratio)
    return lambda rng, cases: rng.normal(0, 1, (cases, PAIRS)) * scale


NAMED = (
    Attack("normal, 0.5 %", normal(0.005)),
    Attack("normal, 5 %", normal(0.05)),
    Attack("normal, 30 %", normal(0.30)),
    Attack("coin, ±3.5 %", coin(0.035)),
    Attack("coin, ±4 %", coin(0.04)),
    Attack("exponential tails, 2 %", exponential(0.02)),
    Attack("modes of 6 %", modes(0.06)),
    Attack("modes of 6 %, stay 0.3, new after the restart", modes(0.06, 0.3, restart=True)),
    Attack("modes of 6 %, stay 0.6, new after the restart", modes(0.06, 0.6, restart=True)),
    Attack("modes of 6 %, stay 0.3", modes(0.06, 0.3)),
    Attack("modes of 6 %, stay 0.6", modes(0.06, 0.6)),
    Attack("AR(1), ρ 0.5, sd 2 %", autoregressive(0.5, 0.02)),
    Attack("AR(1), ρ 0.8, sd 2 %", autoregressive(0.8, 0.02), beyond=True),
    Attack("offset of a session, sd 0.8 %", offset(0.008)),
    Attack("offset of a session, sd 1 %", offset(0.01), beyond=True),
    Attack("one outlier in six, ±30 %", outliers(1 / 6, 1.3)),
)
"""Noises that broke an earlier rule: this one was made with them in view."""

KEPT_ASIDE = (
    Attack("Student's t, 2 degrees of freedom, 1 %", student(2, 0.01)),
    Attack("log-normal delays", skewed(0.01)),
    Attack("bursts of 5 pairs, ±10 %", bursts(5, 0.1, 16)),
    Attack("random walk, 0.3 % a pair", walk(0.003)),
    Attack("quiet and restless by turns, 0.3 % and 6 %", changing_scale(0.003, 20)),
    Attack("coin, ±12 %", coin(0.12, 0.01)),
    Attack("one outlier in four, head 2× slower or faster", outliers(1 / 4, 2.0)),
    Attack("modes of 25 %", modes(0.25)),
)
"""Run for the first time when the rule was frozen."""
