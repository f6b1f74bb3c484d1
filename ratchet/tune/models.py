"""The model that guides a search, a Gaussian process, and the history that it learns from.

`ratchet.tune.search` asks it what to try next. Pure: random draws come from the generator that it is given.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.tune.space import Candidates, Codes, Places, Value


class SearchHistory:
    """The candidates and the answers so far."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.taken = np.zeros(candidates.count, dtype=np.bool_)
        """Candidates that were handed out or answered: not to be proposed again."""
        self.left = candidates.count
        self.values: dict[int, float | None] = {}
        """Candidate → its milliseconds, or None where it failed; in the order of the answers."""
        self.pending: dict[int, None] = {}
        """Candidates handed out, in order, and not answered yet."""

    def take(self, place: int) -> None:
        """Hand a candidate out."""
        self.pending[place] = None
        self._mark(place)

    def know(self, place: int, value: float | None) -> None:
        """Take in an answer. A later one for the same candidate replaces the first."""
        self.pending.pop(place, None)
        self.values[place] = value
        if not self.taken[place]:
            self._mark(place)

    def _mark(self, place: int) -> None:
        self.taken[place] = True
        self.left -= 1

    def untaken(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.flatnonzero(~self.taken)


Floats = NDArray[np.float64]

MOST_PRODUCTS = 28
"""Most products of two parameters that become columns: all those of eight parameters."""
LEVELS = 512
"""Most levels of a column: their distances are a table of the square. Closer numbers share one."""
ZERO = 0.5
"""Stands for 0 where a logarithm is taken."""
SAME = 1e-6
"""The least deviation: all answers can be the same."""


class Process:
    """A Gaussian process that learns which parameters matter, alone and together (Rasmussen and Williams, chapters 2 and 5).

    Its kernel is a product over columns, each factor (1 + w k) / (1 + w) with k = exp(-r d): so each column, and each group of
    them, may have an effect of its own. Weight w and reach r of each column, and the noise, are those most likely in the light
    of the answers and of what is usual. A column is a parameter with two values or more, where numbers are as far apart (d) as
    their ranks, from 0 to 1, and words 1; or the product of two parameters with three or more numbers, none below 0: the threads
    of a block, for example, are a product. Which products mean something is not known, so all of them are columns, or
    `MOST_PRODUCTS` random ones.
    """

    usual = (math.log(2.0), math.log(2.0), math.log(0.01))
    """What is usual for the logarithms of weight (of a product a quarter of it), reach and variance of the noise."""
    spread = (1.2, 0.7, 1.0)
    """Standard deviations of these."""
    rows = 250
    """Most configurations that it learns from: what a proposal takes grows with their square."""

    def __init__(self, candidates: Candidates, rng: np.random.Generator) -> None:
        self._codes, self._rng = candidates.codes, rng
        options = list(candidates.space.parameters.values())
        self._columns: list[tuple[tuple[int, ...], Codes]] = []
        """The parameters of each column, one or two, and its level for each of their values, or pair of values."""
        self._apart: list[Floats] = []
        """Column → how far apart any two levels are."""
        for parameter, values in enumerate(options):
            if len(values) > 1:
                self._add((parameter,), *_levels_of(values))
        singles = len(self._columns)
        numeric = [number for number, values in enumerate(options) if 2 < len(values) <= LEVELS and _are_numbers(values, least=0)]
        pairs = list(itertools.combinations(numeric, 2))
        if len(pairs) > MOST_PRODUCTS:
            pairs = [pairs[at] for at in sorted(rng.choice(len(pairs), MOST_PRODUCTS, replace=False))]
        for pair in pairs:
            first, second = (np.array(options[parameter], dtype=float) for parameter in pair)
            logs = [np.log2(np.where(values > 0, values, ZERO)) for values in (first, second)]
            self._add(pair, *_levels(np.add.outer(*logs)))
        sizes = [len(self._columns), len(self._columns), 1]
        self._usual, self._spread = np.repeat(self.usual, sizes), np.repeat(self.spread, sizes)
        self._usual[singles : len(self._columns)] -= math.log(4.0)
        self._chosen = self._usual
        """The logarithms of weights, reaches and noise."""
        self._choose_at = 0

    def _add(self, parameters: tuple[int, ...], levels: Codes, apart: Floats) -> None:
        self._columns.append((parameters, levels))
        self._apart.append(apart)

    def _levels_at(self, places: Places) -> Codes:
        """Return the levels of these candidates, shape (columns, places)."""
        codes = self._codes[places].T
        return np.array([levels[tuple(codes[parameter] for parameter in own)] for own, levels in self._columns])

    def learn(self, places: Places, answers: Floats) -> None:
        """Predict from these answers from now on; of very many, from the largest and random others.

        Weights, reaches and noise are chosen anew whenever there are a tenth more answers, and at least five.
        """
        count = len(places)
        if count > self.rows:
            order, half = np.argsort(-answers, kind="stable"), self.rows // 2
            learned = np.concatenate([order[:half], self._rng.choice(order[half:], self.rows - half, replace=False)])
            places, answers = places[learned], answers[learned]
        self._known = self._levels_at(places)
        self._mean, self._scale = float(answers.mean()), float(answers.std()) + SAME
        scaled = (answers - self._mean) / self._scale
        if count >= self._choose_at:
            self._choose_at = count + max(5, count // 10)
            self._choose(scaled)
        weights, reaches, noise = np.split(np.exp(self._chosen), [len(self._apart), -1])
        each = zip(weights, reaches, self._apart, strict=True)
        self._factors = [(1 + weight * np.exp(-reach * apart)) / (1 + weight) for weight, reach, apart in each]
        root = np.linalg.cholesky(self._kernel(self._known) + noise * np.eye(len(scaled)))
        self._whiten = np.linalg.inv(root)
        white = self._whiten @ scaled
        self._solved = self._whiten.T @ white
        self._variance = float(white @ white) / len(scaled)

    def _kernel(self, levels: Codes) -> Floats:
        """Return how alike the candidates of these levels and the known ones are, shape (candidates, known)."""
        product = np.ones((levels.shape[1], self._known.shape[1]))
        for factors, known, own in zip(self._factors, self._known, levels, strict=True):
            product *= factors[:, known][own]
        return product

    def predict(self, places: Places) -> tuple[Floats, Floats]:
        """Return the expected answer of each and its standard deviation, shape (n,) each."""
        alike = self._kernel(self._levels_at(places))
        left = 1 - ((alike @ self._whiten.T) ** 2).sum(axis=1)
        deviations = np.sqrt(np.maximum(left * self._variance, SAME**2))
        return self._mean + self._scale * (alike @ self._solved), self._scale * deviations

    def _choose(self, scaled: Floats) -> None:
        """Choose weights, reaches and noise from where they were, by the most likely ones for these answers."""
        from scipy.optimize import minimize  # scipy takes a quarter of a second to load, which `ratchet tune --help` should not

        rows, columns = np.tril_indices(len(scaled), -1)
        apart = np.stack([table[known[rows], known[columns]] for table, known in zip(self._apart, self._known, strict=True)])
        limits = [(-5.0, 7.0)] * len(apart) + [(-3.0, 4.0)] * len(apart) + [(-9.0, 0.0)]
        options = {"maxiter": 25}
        loss = functools.partial(self._loss, scaled=scaled, apart=apart, at=(rows, columns))
        self._chosen = minimize(loss, self._chosen, jac=True, method="L-BFGS-B", bounds=limits, options=options).x

    def _loss(self, chosen: Floats, scaled: Floats, apart: Floats, at: tuple[Places, Places]) -> tuple[float, Floats]:
        """Return how unlikely a choice is, the negative logarithm of its density but for a constant, and the derivatives.

        ``apart``: the distances in each column of any two of the known, shape (columns, n (n - 1) / 2), and ``at`` which two. The
        variance of the process is the most likely one.
        """
        count = len(scaled)
        weights, reaches, noise = np.split(np.exp(chosen), [len(apart), -1])
        raised = weights[:, None] * np.exp(-reaches[:, None] * apart)
        alike = np.prod((1 + raised) / (1 + weights[:, None]), axis=0)
        kernel = (1 + noise) * np.eye(count)
        kernel[at] = kernel[at[::-1]] = alike
        inverse = np.linalg.inv(kernel)
        solved = inverse @ scaled
        variance = max(float(scaled @ solved) / count, SAME**2)
        away = (chosen - self._usual) / self._spread
        loss = 0.5 * (count * math.log(variance) + np.linalg.slogdet(kernel)[1] + away @ away)
        slope = inverse - np.outer(solved, solved) / variance  # of twice the loss, by the entries of the kernel
        moved, share = slope[at] * alike, raised / (1 + raised)
        by_weight = share @ moved - moved.sum() * weights / (1 + weights)
        by_reach = -reaches * ((apart * share) @ moved)
        by_noise = 0.5 * noise * np.trace(slope)
        return float(loss), np.concatenate([by_weight, by_reach, by_noise]) + away / self._spread


def _are_numbers(values: Sequence[Value], least: float = -math.inf) -> bool:
    return all(isinstance(value, int | float) and value >= least for value in values)


def _levels_of(values: Sequence[Value]) -> tuple[Codes, Floats]:
    """Return the level of each value of a parameter, and the distances of levels, as `_levels` does; words are all 1 apart."""
    if _are_numbers(values):
        return _levels(np.argsort(np.argsort(np.array(values, dtype=float))).astype(float))
    return np.arange(len(values), dtype=np.int16), 1 - np.eye(len(values))


def _levels(places: Floats) -> tuple[Codes, Floats]:
    """Return the level of each of these places on a line, and how far apart any two levels are, from 0 to 1."""
    places = (places - places.min()) / np.ptp(places)
    levels, codes = np.unique(places.round(9), return_inverse=True)
    if len(levels) > LEVELS:
        levels, codes = np.linspace(0, 1, LEVELS), np.round(places * (LEVELS - 1))
    return codes.reshape(places.shape).astype(np.int16), np.abs(np.subtract.outer(levels, levels))


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the expected improvement on ``best``, higher being better, shape (n,).

    Jones, Schonlau and Welch, Efficient Global Optimization (1998).
    """
    from scipy.special import ndtr

    z = (mean - best) / deviation
    return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))
