"""A Gaussian process with a Matérn 5/2 kernel and a length for each column.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006): algorithm 2.1, and 5.4.1 for the marginal likelihood.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

Floats = NDArray[np.float64]

LENGTH, NOISE = math.log(0.6), math.log(0.05)
"""What lengths and noise are expected to be, as logarithms, give or take a factor of e."""
MOST = 250
"""Points that the lengths are estimated from: the lowest half of them, and random others."""
STEPS = 40
"""Of the random search for better lengths."""
JITTER = 1e-6


class Process:
    """Learns values at points, and tells what to expect at others. Values have mean 0 and deviation 1, about."""

    def __init__(self, columns: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self._expected = np.append(np.full(columns, LENGTH), NOISE)
        self._chosen = self._expected
        self._at: Floats = np.zeros((0, columns))
        self._low: Floats = np.zeros((0, 0))
        self._weights: Floats = np.zeros(0)
        self._scale = 1.0

    def fit(self, at: Floats, values: Floats) -> None:
        """Estimate lengths and noise: random steps from the present ones, kept where they make the values more likely."""
        if len(values) > MOST:
            order = np.argsort(values)
            kept = np.append(order[: MOST // 2], self._rng.choice(order[MOST // 2 :], MOST // 2, replace=False))
            at, values = at[kept], values[kept]
        size, cost = 0.8, self._cost(self._chosen, at, values)
        for _ in range(STEPS):
            moved = self._rng.random(len(self._chosen)) < 0.4
            step = self._chosen + size * moved * self._rng.standard_normal(len(self._chosen))
            its_cost = self._cost(step, at, values)
            if its_cost < cost:
                self._chosen, cost = step, its_cost
            else:
                size = max(0.15, 0.95 * size)

    def learn(self, at: Floats, values: Floats) -> None:
        """From now on predict from these values, shape (n,), at points of shape (n, columns)."""
        self._at = at
        self._low = self._factor(self._chosen, at)
        self._weights = cho_solve((self._low, True), values, check_finite=False)
        self._scale = max(JITTER, float(values @ self._weights) / len(values))

    def mean(self, at: Floats) -> NDArray[np.float32]:
        """What to expect, in single precision: enough to rank many points."""
        known = self.kernel(at.astype(np.float32), self._at.astype(np.float32))
        return np.asarray(known @ self._weights.astype(np.float32))

    def predict(self, at: Floats) -> tuple[Floats, Floats]:
        """What to expect at each point, and its standard deviation."""
        known = self.kernel(at, self._at)
        explained = solve_triangular(self._low, known.T, lower=True, check_finite=False)
        left = np.maximum(1 - (explained * explained).sum(axis=0), 1e-9)
        return np.asarray(known @ self._weights), np.sqrt(left * self._scale)

    def kernel(self, first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.floating]:
        """How alike points are, shape (n, m), from 1 for the same down to 0."""
        return _kernel(self._chosen, first, second)

    def _factor(self, chosen: Floats, at: Floats) -> Floats:
        covariance = _kernel(chosen, at, at)
        covariance[np.diag_indices(len(at))] += math.exp(2 * chosen[-1]) + JITTER
        return np.asarray(cholesky(covariance, lower=True, check_finite=False))

    def _cost(self, chosen: Floats, at: Floats, values: Floats) -> float:
        """Minus the logarithm of the likelihood, its scale at the best, and of the expectation of ``chosen``."""
        try:
            low = self._factor(chosen, at)
        except LinAlgError:
            return math.inf
        white = solve_triangular(low, values, lower=True, check_finite=False)
        scale = max(JITTER, float(white @ white) / len(values))
        unlikely = 0.5 * float(((chosen - self._expected) ** 2).sum())
        return 0.5 * len(values) * math.log(scale) + float(np.log(np.diag(low)).sum()) + unlikely


def _kernel(chosen: Floats, first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.exp(chosen[:-1]).astype(first.dtype)
    first, second = first / lengths, second / lengths
    apart = first @ (-2 * second.T)
    apart += (first * first).sum(axis=1)[:, None]
    apart += (second * second).sum(axis=1)[None, :]
    np.sqrt(np.maximum(5 * apart, 0, out=apart), out=apart)
    alike = np.exp(-apart)
    alike *= 1 + apart * (1 + apart / 3)
    return np.asarray(alike)
