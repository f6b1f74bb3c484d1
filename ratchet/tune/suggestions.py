"""Tuning records as ``tuning/suggestions.md``, and as the lines that `ratchet tune` prints.

Called by `ratchet.tune.command` and `ratchet.tune.cli`. Reads a template of this package.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ratchet.core import units, untrusted
from ratchet.core.records.verdict import Comparison
from ratchet.core.report.markdown import is_plain, machine, template
from ratchet.core.report.words import NOTHING, change, interval
from ratchet.core.untrusted import CELL, Markdown, fenced, markdown
from ratchet.core.workload import Parameter
from ratchet.tune.judge import Ranked, best_so_far, compares_with_default, effects, fastest_confirmed, ranked
from ratchet.tune.records import Configuration, Confirmation, Ending, Evaluation, TuningRecord, tuning_path

_OF_A_LAUNCH = {"NUM_WARPS": "num_warps", "NUM_STAGES": "num_stages", "NUM_CTAS": "num_ctas", "MAXNREG": "maxnreg"}
"""Name in a benchmark → the argument of ``triton.Config`` that holds it, beside the kernel's own parameters."""
# Names and values that every shell and compiler reads as one word.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Recipe:
    """One way to apply a configuration."""

    title: str
    code: Markdown


def ways(configuration: Mapping[str, Parameter], record: str) -> tuple[Recipe, ...]:
    """Return ways to apply a configuration: with CMake, nvcc, Triton, and ratchet, which reads the file ``record``.

    There are none where a shell could read a name or value as more than a word, because people paste these lines.
    """
    words = [(name, str(int(value)) if isinstance(value, bool) else str(value)) for name, value in configuration.items()]
    if not is_plain(record) or not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in words):
        return ()
    defines = [f"{name}={value}" for name, value in words]
    flags = " ".join(f"-D{define}" for define in defines)
    return (
        Recipe(
            "Compile-time flags (CMake)", fenced([f"target_compile_definitions(kernel PRIVATE {' '.join(defines)})"], "cmake")
        ),
        Recipe("nvcc flags (CUDA C++)", fenced([f"nvcc {flags} kernel.cu"], "bash")),
        Recipe("A launch in Triton", fenced([_for_triton(configuration)], "python")),
        Recipe("The tuned parameters of this repository", fenced([f"ratchet tune --record {record} --apply"], "bash")),
    )


def _for_triton(configuration: Mapping[str, Parameter]) -> str:
    own = {name: value for name, value in configuration.items() if name not in _OF_A_LAUNCH}
    launch = [f"{_OF_A_LAUNCH[name]}={value!r}" for name, value in configuration.items() if name in _OF_A_LAUNCH]
    table = ", ".join(f"{json.dumps(name)}: {value!r}" for name, value in own.items())
    return f"triton.Config({', '.join([f'{{{table}}}', *launch])})"


# One tuning record → the content of its section.


MOST_ROWS = 10
"""Rows of the table of the fastest."""
_BLUE = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "steelblue"}}}}%%'
"""Without a colour of its own, the line would be almost white."""
_CHART_POINTS = 16
"""The most points of a chart: their numbers are side by side under it, and on GitHub it is 700 pixels wide."""
_MEANINGS: dict[Ending, str] = {
    "wrong": "wrong result",
    "compile": "did not compile",
    "resources": "more than the GPU has",
    "timeout": "took too long",
    "crash": "crashed",
}


def _section(record: TuningRecord, heading: str) -> dict[str, Any]:
    """Return everything that the template prints of one case."""
    timed = ranked(record)
    best = record.best or fastest_confirmed(record) or (timed[0].evaluation.configuration if timed else None)
    file = tuning_path(PurePosixPath("tuning"), record.case, record.environment.fingerprint).as_posix()
    return {
        "record": record,
        "heading": heading,
        "best": best,  # recommended, or else the fastest that was found
        "comparison": record.confirmed(best) if best else None,
        "latency": _latency(timed, best),
        "default_latency": _latency(timed, record.default),
        "rows": [_row(row, record) for row in sorted(timed, key=lambda row: row.cost)[:MOST_ROWS]],
        "dropped": sum(row.outcome == "dropped" for row in record.evaluations),
        "effects": effects(record),
        "failures": _failures(record.evaluations),
        "chart": _chart(record),
        "ways": ways(record.best, file) if record.best else (),
        "machine": machine(record.environment.fingerprint),
        "compares": compares_with_default(record),
    }


def _latency(timed: Sequence[Ranked], configuration: Configuration | None) -> str:
    median = next((row.evaluation.median_ms for row in timed if row.evaluation.configuration == configuration), None)
    return units.duration(median / 1e3) if median else NOTHING


def _row(row: Ranked, record: TuningRecord) -> dict[str, Any]:
    evaluation = row.evaluation
    confirmed = record.confirmed(evaluation.configuration)
    return {
        "configuration": evaluation.configuration,
        "time": units.duration((evaluation.median_ms or 0.0) / 1e3),
        "cost": f"{row.cost:.3f}×",
        "confirmed": f"{change(confirmed)} {interval(confirmed)}" if confirmed else NOTHING,
        "dropped": evaluation.outcome == "dropped",
    }


def _failures(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Group the failed evaluations by how they ended, the most frequent first."""
    by_end: dict[Ending, list[Evaluation]] = {}
    for evaluation in evaluations:
        if not evaluation.timed:
            by_end.setdefault(evaluation.outcome, []).append(evaluation)
    groups = sorted(by_end.items(), key=lambda group: -len(group[1]))
    return [{"meaning": _MEANINGS[end], "count": len(those), "example": those[0]} for end, those in groups]


def _chart(record: TuningRecord) -> Markdown | None:
    """Draw the best so far as a Mermaid chart of up to `_CHART_POINTS` points. Only numbers get in, so nothing needs escaping."""
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


# All records → one file.


def render_suggestions(records: Sequence[TuningRecord], warnings: Sequence[str] = ()) -> str:
    """Return the file, sections sorted by case and machine. Every text that code under test may have written is escaped."""
    order = sorted(zip(_headings(records), records, strict=True), key=lambda section: section[0])
    parts = [_section(record, title) for title, record in order]
    return template("tune/suggestions.md.j2").render(
        sections=parts,
        warnings=warnings,
        assigned=assigned,
        capitalised=lambda text: f"{text[:1].upper()}{text[1:]}",
        cost=lambda value: NOTHING if value is None else f"{value:.3f}×",
        elsewhere=elsewhere,
        labelled=lambda configuration: ", ".join(f"{name} = {value}" for name, value in configuration.items()),
        share=lambda value: NOTHING if value is None else units.percent(value),
        speedup=speedup,
    )


def _headings(records: Sequence[TuningRecord]) -> list[str]:
    """Return a heading for each record: the case, with its machine where the case was tuned on several."""
    count = Counter(record.case for record in records)
    keys = [record.environment.fingerprint.key for record in records]
    return [
        record.case if count[record.case] == 1 else f"{record.case} on {key}" for record, key in zip(records, keys, strict=True)
    ]


def assigned(name: str, value: Parameter) -> Markdown:
    """Format an assignment, as code where both parts are plain."""
    if is_plain(name) and is_plain(str(value)):
        return Markdown(f"`{name} = {value}`")
    return markdown(f"{name} = {value}", CELL)


def speedup(comparison: Comparison) -> str:
    """Format a speedup: ``1.23× (95 % interval 1.21× to 1.25×, 12 pairs)``."""
    between = f"{1 / comparison.high:.2f}× to {1 / comparison.low:.2f}×"
    return f"{1 / comparison.ratio:.2f}× ({units.threshold(comparison.confidence)} interval {between}, {comparison.pairs} pairs)"


def elsewhere(others: Sequence[Confirmation]) -> str:
    """Say how other configs fare: ``7.0 % faster on inference_4k, 3.0 % slower on training_1k, not compared on inference_2k``."""
    return ", ".join(f"{_compared(other.comparison)} on {other.config}" for other in others)


def _compared(comparison: Comparison | None) -> str:
    if comparison is None:
        return "not compared"
    if comparison.low <= 1 <= comparison.high:
        return "no change shown"
    return f"{units.percent(abs(comparison.ratio - 1), 1)} {'slower' if comparison.ratio > 1 else 'faster'}"


# Text that `ratchet tune` prints.


SHOWN = 5
"""Fastest configurations that are printed."""


def tuning_lines(record: TuningRecord) -> Iterator[str]:
    """Yield the fastest configurations that were tried, the confirmations, and the verdict."""
    timed = [evaluation for evaluation in record.evaluations if evaluation.timed]
    timed.sort(key=lambda tried: tried.normalised if tried.normalised is not None else tried.median_ms or 0.0)
    counts = Counter(evaluation.outcome for evaluation in record.evaluations)
    of = f" of {record.valid}" if record.valid is not None else ""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    startup = f", {units.wall(record.startup_s)} of them to start" if record.startup_s else ""
    yield f"Tried {len(record.evaluations)}{of} configurations in {units.wall(record.wall_s)}{startup}: {outcomes}"
    for evaluation in timed[:SHOWN]:
        share = f"{units.percent(evaluation.normalised, 1):>9}" if evaluation.normalised is not None else ""
        yield untrusted.log_line(
            f"{share}  {units.duration((evaluation.median_ms or 0) * 1e-3):>9}  {settings_text(evaluation.configuration)}"
        )
    for confirmed in (*record.confirmations, *record.others):
        result, comparison = confirmed.reason, confirmed.comparison
        if comparison:
            result = f"{change(comparison)} {interval(comparison)} in {comparison.pairs} pairs"
        configuration = settings_text(confirmed.configuration)
        yield untrusted.log_line(f"CONFIRMED  {record.benchmark}/{confirmed.config}  {configuration}: {result}")
    yield untrusted.log_line(record.verdict)


def settings_text(configuration: Configuration) -> str:
    """Format a configuration: ``BLOCK_M=128 BLOCK_N=64``."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())
