"""A calibration as lines of text."""

from __future__ import annotations

from ratchet import units
from ratchet.records.calibration import Calibration, CaseCalibration
from ratchet.report.escape import CELL, log_line
from ratchet.report.words import NOTHING


def calibration_lines(done: Calibration) -> list[str]:
    """A table of the cases, the noisiest first, then what it means in sentences."""
    listed = sorted(done.cases, key=lambda case: -case.spread)
    rows = [("Case", "Pairs", "Spread", "Bias", "MDE 20", "MDE most", "Red", "Caught", "Gate"), *map(_row, listed)]
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{'<' if i == 0 else '>'}{wide[i]}}" for i, cell in enumerate(row)).rstrip() for row in rows]
    return [*lines, "", *map(log_line, _sentences(done))]


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
    lines += [f"{name}: too few pairs to say anything; give it more time with --time." for name in done.unmeasured]
    noisy = [case.name for case in done.cases if not case.holds]
    if noisy:
        named = ", ".join(noisy[:5]) + (f" and {len(noisy) - 5} more" if len(noisy) > 5 else "")
        lines.append(
            f"The gate of {gate} cannot be held for {named}: "
            "quieten the machine, lengthen these workloads or time them in a graph, allow more --pairs, or leave them out."
        )
    verdict = f"This machine holds the gate of {gate}" if done.holds else f"This machine does not hold the gate of {gate}"
    return [*lines, f"{verdict}; the smallest gate that every case holds is {units.threshold(done.gate)}."]
