"""Optuna's tree-structured Parzen estimator, for comparison and for those who trust it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from ratchet.errors import UsageError
from ratchet.tune.seen import Seen
from ratchet.tune.strategies.base import Strategy

if TYPE_CHECKING:
    import optuna

TRIES = 20
"""Suggestions that are no candidate, or were handed out before, until one is drawn at random instead."""


class Tpe(Strategy):
    """Each parameter is one category of Optuna's; a suggestion that is not valid is told to it as failed."""

    name = "optuna"

    def __init__(self, seen: Seen, rng: np.random.Generator, budget: int | None) -> None:
        """Raises UsageError where Optuna is not installed."""
        super().__init__(seen, rng, budget)
        try:
            import optuna
        except ImportError:
            raise UsageError(
                "The strategy optuna needs Optuna, which is not installed.", "Install ratchet[tune], or use auto."
            ) from None
        self._optuna = optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)), multivariate=True)
        self._study = optuna.create_study(sampler=sampler)
        self._trials: dict[int, optuna.trial.Trial] = {}

    def next(self) -> int:
        self._tell()
        space = self.seen.candidates.space
        for _ in range(TRIES):
            trial = self._study.ask()
            codes = [trial.suggest_int(str(column), 0, size - 1) for column, size in enumerate(space.sizes)]
            options = zip(space.parameters.items(), codes, strict=True)
            place = self.seen.candidates.index({name: values[code] for (name, values), code in options})
            if place is not None and not self.seen.taken[place]:
                self._trials[place] = trial
                return place
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return self.drawn()

    def _tell(self) -> None:
        """What came of its suggestions since."""
        for place in [each for each in self._trials if each in self.seen.values]:
            value, trial = self.seen.values[place], self._trials.pop(place)
            if value is None:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(trial, value)
