"""Tuning records → ``tuning/suggestions.md``: a report for each case, all in one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ratchet import units
from ratchet.records.tuning import Configuration, Confirmation, TuningRecord
from ratchet.records.verdict import Comparison
from ratchet.report.escape import CELL, Markdown, markdown
from ratchet.report.pieces import is_plain, template
from ratchet.report.suggested import parts_of
from ratchet.report.words import NOTHING
from ratchet.workload import Parameter


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
