"""Parameters → the ways to put them into a build or a launch, as text to paste. Only plain names and values get that far."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ratchet import units, untrusted
from ratchet.judge.tuning import Effect, Ranked, best_so_far, compares_with_default, effects, fastest_confirmed, ranked
from ratchet.records.tuning import Configuration, Confirmation, Ending, Evaluation, ReplayResult, TuningRecord, tuning_path
from ratchet.records.verdict import Comparison
from ratchet.report.markdown import is_plain, machine, template
from ratchet.report.words import NOTHING, change, interval
from ratchet.untrusted import CELL, Markdown, fenced, markdown
from ratchet.workload import Parameter

_OF_A_LAUNCH = {"NUM_WARPS": "num_warps", "NUM_STAGES": "num_stages", "NUM_CTAS": "num_ctas", "MAXNREG": "maxnreg"}
"""Parameters that Triton takes beside a kernel's own, by the names that benchmarks give them."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Way:
    """One way to apply a configuration."""

    title: str
    code: Markdown


def ways(configuration: Mapping[str, Parameter], record: str) -> tuple[Way, ...]:
    """By CMake, by nvcc, in Triton, and by ratchet, which reads the file ``record``.

    None where a shell could read a name or value as more than a word.
    """
    words = [(name, _in_c(value)) for name, value in configuration.items()]
    if not is_plain(record) or not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in words):
        return ()
    defines = [f"{name}={value}" for name, value in words]
    flags = " ".join(f"-D{each}" for each in defines)
    return (
        Way("Compile-time flags (CMake)", fenced([f"target_compile_definitions(kernel PRIVATE {' '.join(defines)})"], "cmake")),
        Way("nvcc flags (CUDA C++)", fenced([f"nvcc {flags} kernel.cu"], "bash")),
        Way("A launch in Triton", fenced([_for_triton(configuration)], "python")),
        Way("The tuned parameters of this repository", fenced([f"ratchet tune --record {record} --apply"], "bash")),
    )


def _in_c(value: Parameter) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _for_triton(configuration: Mapping[str, Parameter]) -> str:
    own = {name: value for name, value in configuration.items() if name not in _OF_A_LAUNCH}
    launch = [f"{_OF_A_LAUNCH[name]}={value!r}" for name, value in configuration.items() if name in _OF_A_LAUNCH]
    table = ", ".join(f"{json.dumps(name)}: {value!r}" for name, value in own.items())
    return f"triton.Config({', '.join([f'{{{table}}}', *launch])})"


# One tuning record → everything that its section of ``tuning/suggestions.md`` shows.


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


# Tuning records → ``tuning/suggestions.md``: a report for each case, all in one file.


def render_suggestions(
    records: Sequence[TuningRecord], pictures: Mapping[str, str] | None = None, warnings: Sequence[str] = ()
) -> str:
    """Sections sorted by case and machine. ``pictures``: heading → address of its plot, relative to the file.

    Every text that code under test may have written is escaped.
    """
    titles = headings(records)
    order = sorted(zip(titles, records, strict=True), key=lambda each: each[0])
    parts = [parts_of(record, title, (pictures or {}).get(title)) for title, record in order]
    return template("suggestions.md.j2").render(
        sections=parts,
        warnings=warnings,
        assigned=assigned,
        capitalised=capitalised,
        cost=lambda value: NOTHING if value is None else f"{value:.3f}×",
        elsewhere=elsewhere,
        labelled=labelled,
        picture=picture_at,
        share=lambda value: NOTHING if value is None else units.percent(value),
        speedup=speedup,
    )


def headings(records: Sequence[TuningRecord]) -> list[str]:
    """The case; with its machine, where the case was tuned on several."""
    count = Counter(each.case for each in records)
    keys = [each.environment.fingerprint.key for each in records]
    return [each.case if count[each.case] == 1 else f"{each.case} on {key}" for each, key in zip(records, keys, strict=True)]


def assigned(name: str, value: Parameter) -> Markdown:
    """An assignment, as code where both parts are plain."""
    if is_plain(name) and is_plain(str(value)):
        return Markdown(f"`{name} = {value}`")
    return markdown(f"{name} = {value}", CELL)


def picture_at(name: str) -> Markdown:
    """A file beside this one, if its name is plain."""
    return Markdown(f"![How the search got there]({name})") if is_plain(name) else Markdown("")


def speedup(found: Comparison) -> str:
    """``1.23× (95 % interval 1.21× to 1.25×, 12 pairs)``."""
    between = f"{1 / found.high:.2f}× to {1 / found.low:.2f}×"
    return f"{1 / found.ratio:.2f}× ({units.threshold(found.confidence)} interval {between}, {found.pairs} pairs)"


def capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def labelled(configuration: Configuration) -> str:
    """``BLOCK_M = 128, BLOCK_N = 64``."""
    return ", ".join(f"{name} = {value}" for name, value in configuration.items())


def elsewhere(others: Sequence[Confirmation]) -> str:
    """``7.0 % faster on inference_4k, 3.0 % slower on training_1k, not compared on inference_2k``."""
    return ", ".join(f"{_compared(each.comparison)} on {each.config}" for each in others)


def _compared(found: Comparison | None) -> str:
    if found is None:
        return "not compared"
    if found.low <= 1 <= found.high:
        return "no change shown"
    return f"{units.percent(abs(found.ratio - 1), 1)} {'slower' if found.ratio > 1 else 'faster'}"


# What `ratchet tune` prints.


SHOWN = 5


def tuning_lines(record: TuningRecord) -> Iterator[str]:
    """The best that were tried, what was confirmed, and the verdict."""
    timed = sorted((each for each in record.evaluations if each.timed), key=_time)
    counts = Counter(each.outcome for each in record.evaluations)
    of = f" of {record.valid}" if record.valid is not None else ""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    yield f"Tried {len(record.evaluations)}{of} configurations in {units.wall(record.wall_s)}: {outcomes}"
    for each in timed[:SHOWN]:
        share = f"{units.percent(each.normalised, 1):>9}" if each.normalised is not None else ""
        yield untrusted.log_line(
            f"{share}  {units.duration((each.median_ms or 0) * 1e-3):>9}  {settings_text(each.configuration)}"
        )
    for confirmed in (*record.confirmations, *record.others):
        yield untrusted.log_line(
            f"CONFIRMED  {record.benchmark}/{confirmed.config}  {settings_text(confirmed.configuration)}: {_found(confirmed)}"
        )
    yield untrusted.log_line(record.verdict)


def _time(each: Evaluation) -> float:
    return each.normalised if each.normalised is not None else each.median_ms or 0.0


def settings_text(configuration: Configuration) -> str:
    """``BLOCK_M=128 BLOCK_N=64``."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())


def _found(confirmed: Confirmation) -> str:
    found = confirmed.comparison
    if found is None:
        return confirmed.reason
    return f"{units.change(found.ratio)} {units.interval(found.low, found.high)} in {found.pairs} pairs"


def replay_lines(result: ReplayResult) -> Iterator[str]:
    """What a search of a recorded space found, and how that compares with the best that there is."""
    of = f"{result.evaluations} of {result.configurations} configurations, {result.failed} of which failed"
    yield untrusted.log_line(f"{result.path}: tried {of} ({result.searched_by}, seed {result.seed})")
    if result.best_ms is None or result.configuration is None:
        yield "No configuration works."
        return
    yield untrusted.log_line(f"Best: {units.duration(result.best_ms * 1e-3)}  {settings_text(result.configuration)}")
    yield f"Optimum: {units.duration(result.optimum_ms * 1e-3)}; fraction of the optimum: {result.fraction:.4f}"
