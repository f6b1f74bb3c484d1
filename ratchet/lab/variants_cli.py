"""`ratchet variants`: time ways to do the same work beside each other.

Loaded by `ratchet.core.cli` when it is called. `ratchet.lab.variants` measures; this file reads options, writes the files and
prints.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any

import click

from ratchet.core.cli.options import common, device, request_of, waiting
from ratchet.core.cli.output import print_result, progressing, shown
from ratchet.core.errors import Exit, PageError
from ratchet.core.records.files import save, save_text
from ratchet.figure_style import write_files
from ratchet.lab.report.variants import variants_csv, variants_lines
from ratchet.lab.report.variants_figure import variants_figure
from ratchet.lab.variants import Over, variants

MOST_VALUES = 64
_TERM = r"\d+(?:\*\*\d+)?"
_RANGE = re.compile(rf"({_TERM})\.\.({_TERM})(?::(\d+))?")


def _over(text: str) -> Over:
    """Convert ``n=2**10..2**19``, ``n=128..1024:128`` or ``n=100,200`` to a name and values. Raises BadParameter."""
    name, _, right = text.partition("=")
    if not name.isidentifier() or not (values := _values(right.replace(" ", ""))):
        raise click.BadParameter(f"{text!r}: write n=2**10..2**19, n=128..1024:128 or n=100,200.")
    if len(values) > MOST_VALUES:
        raise click.BadParameter(f"{text!r} has {len(values)} values, and {MOST_VALUES} are the most: take larger steps.")
    return name, values


def _values(text: str) -> tuple[int, ...]:
    """Return the values of a list or a range; without a step, each is the base of the ends' powers times the one before, or 2."""
    if all(re.fullmatch(_TERM, part) for part in text.split(",")):
        return tuple(dict.fromkeys(map(_number, text.split(","))))
    if not (match := _RANGE.fullmatch(text)):
        return ()
    first, last, step = _number(match[1]), _number(match[2]), int(match[3] or 0)
    if step:
        return tuple(range(first, last + 1, step)[: MOST_VALUES + 1])
    base, values = int(match[1].partition("**")[0]) if "**" in match[1] else 2, [first]
    while 0 < values[-1] * base <= last and base > 1 and len(values) <= MOST_VALUES:
        values.append(values[-1] * base)
    return tuple(values) if first <= last else ()


def _number(text: str) -> int:
    base, _, power = text.partition("**")
    if len(base) > 18 or len(power) > 2:
        raise click.BadParameter(f"{text} is too large.")
    return int(pow(int(base), int(power or 1)))


@click.command("variants")
@click.argument("names", metavar="[BENCHMARK]...", nargs=-1)
@click.option(
    "--over",
    type=_over,
    metavar="NAME=VALUES",
    help="Time one case at many values of a parameter: n=2**10..2**19, n=128..1024:128 or n=100,200.",
)
@click.option("--quickwins", is_flag=True, help="Time well-known optimisations, beside what a guide claims of each.")
@click.option("--pairs", type=click.IntRange(3, 200), help="Pairs of fresh processes for each variant (default: 6).")
@device
@waiting
@common
def variants_command(names: tuple[str, ...], over: Over | None, quickwins: bool, **options: Any) -> int:
    """Time all variants of a benchmark, and show where each stands below the roofline.

    BENCHMARK is a case, a benchmark, a config or a glob, or several. With --over, the other parameters stay as the case has them.
    With --quickwins, it is one of the quick wins that come with ratchet; without a name, all are timed. Writes a text, a CSV
    table, the record and, except of quick wins, pictures to results/variants.
    """
    if not (names or quickwins) or (over and quickwins):
        raise click.UsageError("Name a benchmark, with or without --over, or give --quickwins.")
    with progressing(options) as progress:
        records, results = variants(request_of(names, options), progress, os.environ, over=over, quickwins=quickwins)
    lines, paths = [], []
    for record in records:
        text = list(variants_lines(record))
        files = [results / f"{record.name}.{ending}" for ending in ("txt", "csv", "json")]
        save_text(files[0], "\n".join(text) + "\n")
        save_text(files[1], variants_csv(record))
        save(files[2], record)
        lines += text
        paths += files
        try:
            paths += write_files(partial(variants_figure, record), results, record.name) if record.roofline else []
        except PageError as error:
            click.echo(str(error), err=True)
    document = records[0] if len(records) == 1 else [record.model_dump(mode="json") for record in records]
    print_result(document, [*lines, *(f"{'File:':<9}{shown(path)}" for path in paths)], as_json=options["as_json"])
    cases = [case for record in records for case in record.cases]
    problems = [why for case in cases if not case.skipped for why in case.problems]
    if any("wrong result" in why for why in problems):
        return int(Exit.REGRESSION)
    return int(Exit.PASS if any(case.variants for case in cases) and not problems else Exit.NOT_MEASURED)
