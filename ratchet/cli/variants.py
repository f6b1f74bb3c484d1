"""Commands that time ways to do the same work beside each other: quickwins, study, sweep.

Loaded by `ratchet.cli` when one of them is called. `ratchet.commands.variants` measures; this file reads options, writes the
files and prints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, device, request_of, waiting
from ratchet.cli.output import print_result, progressing, shown
from ratchet.commands.variants import quickwins, study, sweep
from ratchet.errors import Exit, PageError
from ratchet.measure.tree_spec import Sweep
from ratchet.records.files import save, save_text
from ratchet.records.variants import VariantsRecord
from ratchet.report.figures.variants import draw_study, draw_sweep
from ratchet.report.variants import quickwins_lines, quickwins_markdown, study_lines, sweep_csv, sweep_lines

pairs = click.option("--pairs", type=click.IntRange(3, 200), help="Pairs of fresh processes for each variant (default: 6).")


@click.command("quickwins")
@click.argument("names", nargs=-1)
@pairs
@device
@waiting
@common
def quickwins_command(names: tuple[str, ...], **options: Any) -> int:
    """Show what well-known optimisations bring on this machine, beside what a guide claims.

    Each is timed in its naive and its improved form (bench/quickwins of ratchet's own repository). Writes quickwins.md and
    quickwins.json to the results folder. NAMES are cases, benchmarks or globs.
    """
    with progressing(options) as progress:
        done = quickwins(request_of(names, options), progress, os.environ)
    (record,), folder = done.records, done.results
    save(folder / "quickwins.json", record)
    save_text(folder / "quickwins.md", quickwins_markdown(record))
    return _printed(done.records, quickwins_lines(record), [folder / "quickwins.md", folder / "quickwins.json"], options)


@click.command("study")
@click.argument("cases", nargs=-1, required=True)
@pairs
@device
@waiting
@common
def study_command(cases: tuple[str, ...], **options: Any) -> int:
    """Time all variants of a benchmark, and show where each stands below the roofline.

    CASES are cases, benchmarks, configs or globs. Writes NAME.txt, NAME.json and pictures to results/study for each benchmark.
    """
    with progressing(options) as progress:
        done = study(request_of(cases, options), progress, os.environ)
    lines, paths = [], []
    for record in done.records:
        name, text = record.cases[0].benchmark, list(study_lines(record))
        save(done.results / f"{name}.json", record)
        save_text(done.results / f"{name}.txt", "\n".join(text) + "\n")
        lines += text
        paths += [done.results / f"{name}.txt", done.results / f"{name}.json"]
        paths += _drawn(partial(draw_study, record, done.results, name))
    return _printed(done.records, lines, paths, options)


MOST_VALUES = 64
_TERM = r"\d+(?:\*\*\d+)?"
_RANGE = re.compile(rf"({_TERM})\.\.({_TERM})(?::(\d+))?")


def _over(text: str) -> tuple[str, tuple[int, ...]]:
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


@click.command("sweep")
@click.argument("case")
@click.option(
    "--over",
    type=_over,
    required=True,
    metavar="NAME=VALUES",
    help="A parameter and its values: n=2**10..2**19, n=128..1024:128 or n=100,200.",
)
@pairs
@device
@waiting
@common
def sweep_command(case: str, over: tuple[str, tuple[int, ...]], **options: Any) -> int:
    """Time all variants of a case at many sizes: GB/s and TFLOP/s against one of its parameters.

    Writes a CSV table, pictures and the record to results/sweep. The other parameters stay as CASE has them.
    """
    with progressing(options) as progress:
        done = sweep(Sweep(case, *over), request_of((), options), progress, os.environ)
    (record,), folder = done.records, done.results
    name = f"{record.cases[0].benchmark}_{record.parameter}"
    save(folder / f"{name}.json", record)
    save_text(folder / f"{name}.csv", sweep_csv(record))
    paths = [folder / f"{name}.csv", folder / f"{name}.json", *_drawn(partial(draw_sweep, record, folder, name))]
    return _printed(done.records, sweep_lines(record), paths, options)


def _drawn(draw: Callable[[], list[Path]]) -> list[Path]:
    """Draw, or say on stderr why there is no picture."""
    try:
        return draw()
    except PageError as error:
        click.echo(str(error), err=True)
        return []


def _printed(records: Sequence[VariantsRecord], lines: Iterable[str], paths: Iterable[Path], options: dict[str, Any]) -> int:
    """Print records. Return 0 where all variants that can run here were timed, 1 for a wrong result, else 3."""
    document = records[0] if len(records) == 1 else [record.model_dump(mode="json") for record in records]
    print_result(document, [*lines, *(f"{'File:':<9}{shown(path)}" for path in paths)], as_json=options["as_json"])
    cases = [case for record in records for case in record.cases]
    problems = [why for case in cases if not case.skipped for why in case.problems]
    if any("wrong result" in why for why in problems):
        return int(Exit.REGRESSION)
    return int(Exit.PASS if any(case.variants for case in cases) and not problems else Exit.NOT_MEASURED)
