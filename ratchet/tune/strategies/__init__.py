"""The strategies by name. Each has ``next()``: a candidate that was not handed out, of which there is at least one."""

from __future__ import annotations

from ratchet.tune.strategies.auto import Auto
from ratchet.tune.strategies.base import Strategy
from ratchet.tune.strategies.climb import Climb
from ratchet.tune.strategies.plain import Exhaustive, Random
from ratchet.tune.strategies.tpe import Tpe
from ratchet.tune.strategies.trees import Trees

STRATEGIES: dict[str, type[Strategy]] = {each.name: each for each in (Auto, Exhaustive, Random, Climb, Trees, Tpe)}

__all__ = ["STRATEGIES", "Auto", "Strategy"]
