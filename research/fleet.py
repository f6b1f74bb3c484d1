"""How often a healthy fleet is accused, and how soon a slow card is found: ``python research/fleet.py`` prints a table.

Draws fleets of 100 cards over 1,000 nights, as `ratchet.judge.fleet` sees them: log ratios of each card's time to that of the
median card of the night. Healthy cards differ by a fixed amount; a night adds its own noise, in one of a hundred nights ten times
as large, and heat moves a card slowly up and down over the year. Then one card becomes 3 % slower, or is from the first night on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ratchet.judge.fleet import LIMIT, OWN_DAYS, WEEK, level_limit, pooled_noise, sums

CARDS, NIGHTS, MONTH = 100, 1000, 30
FLEETS = ((0.002, 0.003), (0.005, 0.005), (0.01, 0.01), (0.025, 0.01), (0.025, 0.015))
"""Standard deviations: between cards, and of a night of one card."""
Floats = NDArray[np.float64]


def drawn(rng: np.random.Generator, between: float, night: float, cards: int = CARDS, nights: int = NIGHTS) -> Floats:
    """Return the times of a healthy fleet as log ratios, shape (cards, nights)."""
    own = rng.normal(0, between, (cards, 1))
    noise = rng.normal(0, night, (cards, nights)) * np.where(rng.random((cards, nights)) < 0.01, 10, 1)
    season = night / 2 * np.sin(2 * np.pi * (np.arange(nights) / 365 + rng.random((cards, 1))))
    fleet: Floats = own + noise + season
    return fleet - np.median(fleet, axis=0)


def accused(fleet: Floats) -> NDArray[np.bool_]:
    """Return whether each card is called slow after each night, by either rule."""
    noise = pooled_noise([list(card) for card in fleet])
    before = np.array([sums(list(card), noise) for card in fleet]) >= LIMIT
    return before | beyond_the_others(fleet)


def beyond_the_others(fleet: Floats) -> NDArray[np.bool_]:
    """Return whether each card is an outlier of its model after each night."""
    found = np.zeros(fleet.shape, dtype=bool)
    for night in range(WEEK, fleet.shape[1] + 1):
        levels = np.median(fleet[:, night - WEEK : night], axis=1)
        limit = level_limit(list(levels))
        found[:, night - 1] = limit is not None and levels > limit
    return found


def begun(found: NDArray[np.bool_]) -> int:
    """Return how often a card that was not accused the night before is accused."""
    return int((found[:, 1:] & ~found[:, :-1]).sum() + found[:, 0].sum())


def nights_until_found(
    rng: np.random.Generator, between: float, night: float, slower: float, *, at: int, runs: int
) -> list[float]:
    """Return for each run after how many nights the card that is slower from night ``at`` on is accused; infinite: never."""
    waits = []
    for _ in range(runs):
        fleet = drawn(rng, between, night, nights=at + 60)
        fleet[0, at:] += np.log1p(slower)
        after = accused(fleet)[0, at:]
        waits.append(float(after.argmax()) + 1 if after.any() else np.inf)
    return waits


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20, help="fleets with a slow card, of each kind")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print(
        row(
            (
                "spread of cards",
                "of a night",
                "healthy cards accused a month",
                "3 % slower later: found within a week",
                "median",
                "from the start",
            )
        )
    )
    print("|--:|--:|--:|--:|--:|--:|")
    for between, night in FLEETS:
        a_month = begun(accused(drawn(rng, between, night))) / (NIGHTS / MONTH)
        later = nights_until_found(rng, between, night, 0.03, at=OWN_DAYS + 30, runs=options.runs)
        start = nights_until_found(rng, between, night, 0.03, at=0, runs=options.runs)
        within, early = (sum(wait <= WEEK for wait in waits) for waits in (later, start))
        cells = (
            f"{between:.1%}",
            f"{night:.1%}",
            f"{a_month:.2f}",
            f"{within} of {options.runs}",
            f"{np.median(later):g} nights",
        )
        print(row((*cells, f"{early} of {options.runs}")))


if __name__ == "__main__":
    main()
