"""Text and JSON fields for `ratchet doctor calibrate` and `ratchet compare --replay`.

`ratchet.trust.cli` and `ratchet.trust.replay_cli` print them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ratchet.core import units
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.report import words
from ratchet.core.report.words import NOTHING
from ratchet.core.untrusted import CELL, log_line
from ratchet.trust.records import Calibration, CaseCalibration
from ratchet.trust.replay_rule import Rates


def calibration_lines(done: Calibration) -> list[str]:
    """Return a table of the cases, the noisiest first, then sentences that say what it means."""
    listed = sorted(done.cases, key=lambda case: -case.spread)
    rows = [("Case", "Pairs", "Spread", "Bias", "MDE first", "MDE most", "Red", "Caught", "Gate"), *map(_row, listed)]
    return [*words.aligned(rows, "<>>>>>>>>"), "", *map(log_line, _sentences(done))]


def _row(case: CaseCalibration) -> tuple[str, ...]:
    return (
        log_line(case.name, CELL),
        str(case.pairs),
        units.percent(case.spread, 2),
        units.change(1 + case.bias),
        _detectable(case.detectable_first),
        _detectable(case.detectable_most),
        units.percent(case.red, 2),
        units.percent(case.caught),
        units.threshold(case.gate),
    )


def _detectable(fraction: float | None) -> str:
    return NOTHING if fraction is None else units.percent(fraction, 2)


def _sentences(done: Calibration) -> list[str]:
    gate = units.threshold(done.policy.regression)
    slower = units.percent(done.policy.regression * 7 / 6, 1)
    lines = [
        f"Of {done.checks} checks of unchanged code drawn from these pairs, {units.percent(done.any_red, 2)} would be red; "
        f"a slowdown of {slower} would be caught as often as the column Caught says.",
    ]
    lines += [f"{name}: one side is favoured beyond chance, so something here is not symmetric." for name in done.biased]
    lines += [f"{name}: too few pairs that count; see `ratchet run`, or give it more --time." for name in done.unmeasured]
    noisy = [case.name for case in done.cases if not case.holds]
    if noisy:
        lines.append(
            f"The gate of {gate} cannot be held for {units.listed(noisy, 5)}: "
            "stop other work on this machine, lengthen these workloads, time them in a graph, allow more --pairs, or drop them."
        )
    verdict = f"This machine holds the gate of {gate}" if done.holds else f"This machine does not hold the gate of {gate}"
    return [*lines, f"{verdict}; the smallest gate that every case holds is {units.threshold(done.gate)}."]


# `ratchet compare --replay`: recorded pairs judged again, and pull requests simulated from them.


@dataclass(frozen=True)
class ReplayedFile:
    """One file, judged again."""

    file: Path
    report: ReportRecord


@dataclass(frozen=True)
class Simulation:
    """Pull requests drawn from recorded pairs, and the settings of the draw."""

    rates: Rates
    policy: Policy
    pairs: int
    """The most pairs that a case may take."""
    seed: int
    planted: Mapping[str, float]
    """Case → factor on the head's times."""
    recorded: Mapping[str, int]
    """Case → pairs to draw from; a case without any was left out."""


def judged_json(done: Sequence[ReplayedFile], exit_code: int) -> dict[str, Any]:
    """Return all files as JSON fields for other programs."""
    files = [
        {
            "file": str(replayed.file),
            "exit_code": replayed.report.exit_code,
            "headline": replayed.report.headline,
            "cases": [case.model_dump(mode="json") for case in replayed.report.cases],
        }
        for replayed in done
    ]
    return {"exit_code": exit_code, "files": files}


def simulation_lines(done: Simulation) -> list[str]:
    """Return what was drawn, a table of the cases, the rates, and their meaning in one sentence."""
    rates = done.rates
    gate = units.threshold(done.policy.regression)
    table = [("Case", "Recorded pairs", "Planted", "Red")]
    table += [
        (
            log_line(name, CELL),
            str(done.recorded[name]),
            units.change(done.planted[name]) if name in done.planted else words.NOTHING,
            units.percent(share, 2),
        )
        for name, share in rates.red.items()
    ]
    figures = [
        ("Any red that was not planted", units.percent(rates.any_red, 2)),
        ("Planted cases caught", words.NOTHING if rates.caught is None else units.percent(rates.caught, 2)),
        ("Cases without an answer", units.percent(rates.inconclusive, 2)),
        ("Pairs that a case took", f"{rates.pairs_mean:.1f} of {done.pairs}"),
    ]
    left_out = [name for name, count in done.recorded.items() if not count]
    return [
        f"{rates.runs} pull requests of {len(rates.red)} cases, gate {gate}, at most {done.pairs} pairs a case, seed {done.seed}",
        "",
        *words.aligned(table, "<>>>"),
        "",
        *words.aligned(figures, "<>"),
        *(f"Left out, without pairs: {log_line(name, CELL)}" for name in left_out),
        "",
        _meaning(done),
    ]


def simulation_json(done: Simulation) -> dict[str, Any]:
    """Return JSON fields for other programs."""
    policy = done.policy
    return asdict(done.rates) | {
        "pairs": done.pairs,
        "seed": done.seed,
        "gate": policy.regression,
        "improvement": policy.improvement,
        "confidence": policy.confidence,
        "false_alarm": policy.false_alarm,
        "cases": list(done.rates.red),
        "recorded_pairs": done.recorded,
        "planted": done.planted,
    }


def _meaning(done: Simulation) -> str:
    rates = done.rates
    drawn = f"Drawn from these pairs, {units.percent(rates.any_red, 2)} of pull requests"
    if rates.caught is None:
        return f"{drawn} that change nothing are red, if nothing changed where the pairs were recorded."
    caught = f"and {units.percent(rates.caught, 1)} of what was planted is caught"
    return f"{drawn} are red for a case that nothing was planted in, {caught}."
