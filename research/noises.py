"""Noise that pairs of unchanged code may show, as generators, for ``python research/adversary.py``.

Each takes a random generator and a number of cases, and gives log ratios of shape (cases, `PAIRS`), in the order in which the
pairs are taken. They come from `SESSIONS`: eight pairs from the first hosts, then three from each further pair of hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.core.judge.evidence import session_of
from ratchet.core.judge.rule import LOOKS

PAIRS = LOOKS[-1]
SESSIONS = np.array([session_of(pair) for pair in range(PAIRS)])
_BEGINS = np.diff(SESSIONS, prepend=0) > 0
"""Pairs that begin a session after the first one."""

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

    ``restart``: the processes of new hosts begin in a mode of their own, whatever the earlier ones were in.
    """

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        log_ratios = rng.normal(0, sd, (cases, PAIRS))
        for sign in (1, -1):
            slow = rng.random(cases) < 0.5
            for pair in range(PAIRS):
                fresh = rng.random(cases) < 0.5
                keeps = (rng.random(cases) < stays) & (not (restart and _BEGINS[pair]))
                slow = np.where(keeps, slow, fresh)
                log_ratios[:, pair] += sign * slow * math.log1p(apart)
        return log_ratios

    return draw


def autoregressive(rho: float, sd: float) -> Noise:
    """Each pair remembers ``rho`` of the pair before it, through every restart."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        log_ratios = rng.normal(0, sd, (cases, PAIRS))
        for pair in range(1, PAIRS):
            log_ratios[:, pair] = rho * log_ratios[:, pair - 1] + math.sqrt(1 - rho**2) * log_ratios[:, pair]
        return log_ratios

    return draw


def offset(between: float, sd: float = 0.003) -> Noise:
    """All pairs of a session share an offset, as where processes lie otherwise in memory."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        own = rng.normal(0, between, (cases, SESSIONS[-1] + 1))[:, SESSIONS]
        return np.asarray(own + rng.normal(0, sd, (cases, PAIRS)))

    return draw


def late_hosts(scale: float, sd: float = 0.003) -> Noise:
    """Each host is slower by an exponential amount of its own, which all of its forks have."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        slower, other = rng.exponential(scale, (2, cases, SESSIONS[-1] + 1))
        return np.asarray((slower - other)[:, SESSIONS] + rng.normal(0, sd, (cases, PAIRS)))

    return draw


def host_modes(share: float, by: float, sd: float = 0.003) -> Noise:
    """A share of the hosts is slower by ``by``, with all of their forks: a layout or a choice drawn while the host starts."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        head, reference = rng.random((2, cases, SESSIONS[-1] + 1)) < share
        apart = (head.astype(float) - reference.astype(float)) * math.log1p(by)
        return np.asarray(apart[:, SESSIONS] + rng.normal(0, sd, (cases, PAIRS)))

    return draw


def order_effect(by: float, sd: float, period: int) -> Noise:
    """Being timed first costs ``by``, or gains it: that turns every ``period`` pairs. A coin for each pair says who is first."""
    turns = np.where(np.arange(PAIRS) // period % 2, 1, -1)
    return lambda rng, cases: rng.choice((-1, 1), (cases, PAIRS)) * turns * math.log1p(by) + rng.normal(0, sd, (cases, PAIRS))


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
    """The ratio wanders off by a random walk, which begins anew with new hosts."""

    def draw(rng: np.random.Generator, cases: int) -> Floats:
        steps = rng.normal(0, step, (cases, PAIRS))
        walked = np.cumsum(steps, axis=1)
        start = np.searchsorted(SESSIONS, SESSIONS)  # the first pair of each pair's session
        return np.asarray(walked - walked[:, start] + rng.normal(0, sd, (cases, PAIRS)))

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
    Attack("offset of a session, sd 1 %", offset(0.01)),
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

ADDED = (
    Attack("one host in ten +5 %", host_modes(0.1, 0.05)),
    Attack("half of the hosts +4 %", host_modes(0.5, 0.04)),
    Attack("half of the hosts +30 %", host_modes(0.5, 0.30)),
    Attack("one host in four +10 %", host_modes(0.25, 0.10)),
    Attack("offset of a session, sd 4 %", offset(0.04)),
    Attack("offset of a session, sd 10 %", offset(0.10)),
    Attack("late hosts, exponential, 4 %", late_hosts(0.04)),
    Attack("order effect of 6 %, turns every pair, sd 0.3 %", order_effect(0.06, 0.003, 1)),
    Attack("order effect of 12 %, turns every second pair, sd 1 %", order_effect(0.12, 0.01, 2)),
    Attack("modes of 6 %, stay 0.9, new after each restart", modes(0.06, 0.9, restart=True)),
)
"""Noises that broke the rule of two sessions."""
