"""A Gaussian process over the logarithm of the times; the next is where the largest gain on the best is expected.

Expected improvement as Jones, Schonlau and Welch, Efficient Global Optimization (1998). Configurations much slower than the
best are all counted as equally slow, so that the model spends itself on those that matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ratchet.tune.configurations import Places
from ratchet.tune.seen import Seen
from ratchet.tune.strategies.base import Strategy
from ratchet.tune.strategies.features import Features
from ratchet.tune.strategies.process import Process
from ratchet.tune.strategies.threads import one_thread

Floats = NDArray[np.float64]


class Model(Strategy):
    """The constants were chosen on parts of recorded spaces and on made-up ones: docs/decisions/0011-search.md."""

    name = "model"
    first = 12
    """Random ones before the model is asked."""
    fewest = 3
    """Times without which there is no model."""
    clip = 0.7
    """Natural logarithm of how much slower than the best still makes a difference."""
    local = 3
    """Each so-many-th is a neighbour of the best: a narrow optimum lies beside a good configuration more often than elsewhere."""
    centres = 3
    """Configurations whose neighbours are looked at: those of the second once those of the best are all taken."""
    pool = 6144
    """Candidates whose mean is computed."""
    shortlist = 500
    """Of these, with the best mean: those whose uncertainty is computed too; and ``others`` random ones."""
    others = 250
    refit = 8
    """New times until the lengths are estimated again."""

    def __init__(self, seen: Seen, rng: np.random.Generator, budget: int | None) -> None:
        super().__init__(seen, rng, budget)
        self._features = Features(seen.candidates)
        self._process = Process(self._features.columns, rng)
        self._fitted = 0

    def next(self) -> int:
        known = {place: value for place, value in self.seen.values.items() if value is not None}
        if len(self.seen.values) + len(self.seen.pending) < self.first or len(known) < self.fewest:
            return self.drawn()
        with one_thread():
            return self._promising(known)

    def _promising(self, known: dict[int, float]) -> int:
        """The candidate with the largest gain to expect."""
        times = np.log(list(known.values()))
        times = np.minimum(times, times.min() + self.clip)
        times = (times - times.mean()) / (times.std() or 1.0)
        at = self._features.of(np.array(list(known), dtype=np.intp))
        if len(known) >= self._fitted + self.refit:
            self._process.fit(at, times)
            self._fitted = len(known)
        self._process.learn(at, times)
        places = self._shortlist(self._nearby(known))
        features = self._features.of(places)
        gain = self._gain(features, float(times.min())) * self._works(features, at) * self._apart(features)
        return int(places[int(np.argmax(gain))])

    def _nearby(self, known: dict[int, float]) -> Places:
        """What may come next: neighbours of a good one, or any, as many as are looked at."""
        if (len(self.seen.values) + len(self.seen.pending)) % self.local == 0:
            for centre in sorted(known, key=known.__getitem__)[: self.centres]:
                near = self.seen.candidates.neighbours(centre)
                near = near[~self.seen.taken[near]]
                if len(near):
                    return near
        if self.seen.left <= self.pool:
            return self.seen.untaken()
        drawn = np.unique(self.rng.integers(self.seen.candidates.count, size=self.pool))
        drawn = drawn[~self.seen.taken[drawn]]
        return drawn if len(drawn) else self.seen.untaken()[: self.pool]

    def _shortlist(self, places: Places) -> Places:
        if len(places) <= self.shortlist + self.others:
            return places
        mean = self._process.mean(self._features.of(places))
        best = np.argpartition(mean, self.shortlist)[: self.shortlist]
        others = self.rng.integers(len(places), size=self.others)
        return np.asarray(places[np.unique(np.concatenate([best, others]))])

    def _gain(self, features: Floats, best: float) -> Floats:
        """Expected improvement."""
        mean, deviation = self._process.predict(features)
        z = (best - mean) / deviation
        return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))

    def _works(self, features: Floats, timed: Floats) -> Floats:
        """How likely each is not to fail: the share of those that did not, near ones counting more."""
        failed = [place for place, value in self.seen.values.items() if value is None]
        if not failed:
            return np.ones(len(features))
        good = self._process.kernel(features, timed).sum(axis=1)
        bad = self._process.kernel(features, self._features.of(np.array(failed, dtype=np.intp))).sum(axis=1)
        return np.asarray((good + 0.5) / (good + bad + 0.5))

    def _apart(self, features: Floats) -> Floats:
        """Less for what is like a configuration that is under way."""
        apart = np.ones(len(features))
        if self.seen.pending:
            for pending in self._features.of(np.array(list(self.seen.pending), dtype=np.intp)):
                apart *= 1 - np.exp(-np.abs(features - pending).sum(axis=1))
        return apart
