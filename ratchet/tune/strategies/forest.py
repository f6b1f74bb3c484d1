"""Extremely randomised trees over the speed: Geurts, Ernst and Wehenkel, Machine Learning 63 (2006).

What the trees do not agree on counts as uncertain: Hutter, Hoos and Leyton-Brown, Learning and Intelligent Optimization (2011).
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ratchet.tune.configurations import Candidates, Places
from ratchet.tune.seen import Seen
from ratchet.tune.strategies.features import Features

Floats = NDArray[np.float64]

SAME = 1e-6
"""The least deviation: trees can agree to the last digit."""


class Forest:
    """The trees learn the speed, the best being 1: that of slow configurations differs little, so few splits are spent on them.

    A failure counts as the slowest that was seen, and what is under way as the median: no two stations try the same spot.
    """

    trees = 20
    rows = 600
    """Configurations that the trees are told of: with all of some thousand, a proposal would take longer than an evaluation."""
    share = 0.12
    """Of the columns, those that are looked at for a split: so few that trees disagree where they were told nothing."""

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._rng = rng
        self._features = Features(candidates, rng)
        self._sklearn: Any = importlib.import_module("sklearn")
        self._tree: Any = importlib.import_module("sklearn.tree").ExtraTreeRegressor
        self._grown: list[Any] = []

    def learn(self, seen: Seen) -> None:
        """From now on predict from this; at least one configuration has a time."""
        times = np.array([np.nan if value is None else value for value in seen.values.values()])
        speeds = np.nanmin(times) / np.where(np.isnan(times), np.nanmax(times), times)
        speeds = np.append(speeds, np.full(len(seen.pending), np.median(speeds)))
        places = np.array([*seen.values, *seen.pending], dtype=np.intp)
        if len(places) > self.rows:
            told = self._told_of(speeds)
            places, speeds = places[told], speeds[told]
        at = self._features.of(places)
        seeds = self._rng.integers(2**31, size=self.trees).tolist()
        # A tree at a time, and what it takes checked here: the forest of scikit-learn takes twice as long, most of it to begin.
        with self._sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
            grown = [self._tree(max_features=self.share, random_state=seed) for seed in seeds]
            self._grown = [tree.fit(at, speeds, check_input=False).tree_ for tree in grown]

    def _told_of(self, speeds: Floats) -> Places:
        """Of more than the trees are told, half are the fastest, and the others any."""
        order = np.argsort(-speeds, kind="stable")
        half = self.rows // 2
        return np.concatenate([order[:half], self._rng.choice(order[half:], self.rows - half, replace=False)])

    def speed(self, places: Places) -> Floats:
        """What to expect of each, shape (n,)."""
        return np.asarray(self._told(places).mean(axis=0))

    def gain(self, places: Places) -> Floats:
        """How much above the best to expect of each, shape (n,)."""
        told = self._told(places)
        return improvement(told.mean(axis=0), np.maximum(told.std(axis=0), SAME), 1.0)

    def _told(self, places: Places) -> Floats:
        """What each tree says, shape (trees, places)."""
        at = self._features.of(places)
        return np.array([tree.predict(at).ravel() for tree in self._grown])


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Expected improvement on ``best``, higher being better: Jones, Schonlau and Welch, Efficient Global Optimization (1998)."""
    z = (mean - best) / deviation
    return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))
