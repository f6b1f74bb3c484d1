"""One tuning record → everything that its section of ``tuning/suggestions.md`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ratchet import units
from ratchet.judge.effects import Effect, effects
from ratchet.judge.tuning import Ranked, best_so_far, compares_with_default, fastest_confirmed, ranked
from ratchet.records.tuning import Configuration, Ending, Evaluation, TuningRecord, tuning_path
from ratchet.records.verdict import Comparison
from ratchet.report.applying import Way, ways
from ratchet.report.escape import Markdown
from ratchet.report.pieces import machine
from ratchet.report.words import NOTHING, change, interval

MOST_ROWS = 10
_BLUE = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "steelblue"}}}}%%'
"""The line would be all but white."""
_CHART_POINTS = 16
"""Their numbers stand side by side under a chart that is 700 pixels wide on GitHub."""
_MEANINGS: dict[Ending, str] = {
    "wrong": "wrong result",
    "compile": "did not compile",
    "resources": "more than the GPU has",
    "timeout": "took too long",
    "crash": "crashed",
}


@dataclass(frozen=True)
class Row:
    """One line of the table of the fastest."""

    configuration: Configuration
    time: str
    cost: str
    confirmed: str
    dropped: bool


@dataclass(frozen=True)
class FailedWith:
    """All evaluations that ended in one way, and the first of them."""

    meaning: str
    count: int
    example: Evaluation


@dataclass(frozen=True)
class Parts:
    """What the section of one case shows."""

    record: TuningRecord
    heading: str
    found: Configuration | None
    """Recommended, or else the fastest that was found; None where nothing was timed."""
    comparison: Comparison | None
    latency: str
    default_latency: str
    rows: tuple[Row, ...]
    effects: tuple[Effect, ...]
    failures: tuple[FailedWith, ...]
    dropped: int
    chart: Markdown | None
    picture: str | None
    ways: tuple[Way, ...]
    machine: Mapping[str, object]
    compares: bool


def parts_of(record: TuningRecord, heading: str, picture: str | None = None) -> Parts:
    """Everything that the template prints of one case."""
    timed, compares = ranked(record), compares_with_default(record)
    found = record.best or fastest_confirmed(record) or (timed[0].evaluation.configuration if timed else None)
    return Parts(
        record=record,
        heading=heading,
        found=found,
        comparison=record.confirmed(found) if found else None,
        latency=_latency(timed, found),
        default_latency=_latency(timed, record.default),
        rows=tuple(_row(each, record) for each in sorted(timed, key=lambda each: each.cost)[:MOST_ROWS]),
        dropped=sum(each.outcome == "dropped" for each in record.evaluations),
        effects=effects(record),
        failures=_failures(record.evaluations),
        chart=_chart(record),
        picture=picture,
        ways=ways(record.best, _file_of(record)) if record.best else (),
        machine=machine(record.environment.fingerprint),
        compares=compares,
    )


def _file_of(record: TuningRecord) -> str:
    """Where a search leaves its record, in the repository."""
    return tuning_path(PurePosixPath("tuning"), record.case, record.environment.fingerprint).as_posix()


def _latency(timed: Sequence[Ranked], configuration: Configuration | None) -> str:
    found = next((each.evaluation.median_ms for each in timed if each.evaluation.configuration == configuration), None)
    return units.duration(found / 1e3) if found else NOTHING


def _row(each: Ranked, record: TuningRecord) -> Row:
    one = each.evaluation
    confirmed = record.confirmed(one.configuration)
    shown = f"{change(confirmed)} {interval(confirmed)}" if confirmed else NOTHING
    time = units.duration((one.median_ms or 0.0) / 1e3)
    return Row(one.configuration, time, f"{each.cost:.3f}×", shown, one.outcome == "dropped")


def _failures(evaluations: Sequence[Evaluation]) -> tuple[FailedWith, ...]:
    """The most frequent first."""
    by_end: dict[Ending, list[Evaluation]] = {}
    for each in evaluations:
        if not each.timed:
            by_end.setdefault(each.outcome, []).append(each)
    found = [FailedWith(_MEANINGS[end], len(those), those[0]) for end, those in by_end.items()]
    return tuple(sorted(found, key=lambda each: -each.count))


def _chart(record: TuningRecord) -> Markdown | None:
    """The best so far as a line that GitHub draws, at up to `_CHART_POINTS` evaluations; numbers alone reach it."""
    known = [(number, value) for number, value in enumerate(best_so_far(record), 1) if value is not None]
    if len(known) < 2:
        return None
    last = len(known) - 1
    places = sorted({round(at * last / (_CHART_POINTS - 1)) for at in range(_CHART_POINTS)})
    shown = [known[at] for at in places]
    numbers, values = ", ".join(f'"{number}"' for number, _ in shown), [min(value, 1e6) for _, value in shown]
    low, high = min(values), max(*values, min(values) * 1.01)
    room = (high - low) * 0.05
    return Markdown(
        "\n".join(
            [
                "```mermaid",
                _BLUE,
                "xychart-beta",
                f'    x-axis "evaluation" [{numbers}]',
                f'    y-axis "best so far, default = 1" {max(0.0, low - room):.4f} --> {high + room:.4f}',
                f"    line [{', '.join(f'{value:.4f}' for value in values)}]",
                "```",
            ]
        )
    )
