"""`ratchet roofline`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, request_of
from ratchet.cli.shown import verdict
from ratchet.errors import Exit


@click.command()
@click.argument("words", nargs=-1, metavar="[CASE…] [RUN.json]")
@click.option("--profiles", type=click.Path(path_type=Path), help="Counters (default: results/nsight/profiles.json, if there).")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder (default: results/roofline).")
@common
def roofline(words: tuple[str, ...], profiles: Path | None, out: Path | None, **given: Any) -> int:
    """Draw how near each case comes to what the machine can do (default: the last run, else the baseline).

    A word that ends with .json is a recorded run or a baseline; the others are cases, benchmarks, configs or globs.
    """
    from ratchet import pipeline
    from ratchet.report.roofline import roofline_lines

    files = [Path(word) for word in words if word.endswith(".json")]
    if len(files) > 1:
        raise click.UsageError(f"one recorded run at a time, not {len(files)}.")
    cases = tuple(word for word in words if not word.endswith(".json"))
    drawn = pipeline.draw_roofline(files[0] if files else None, profiles, out, request_of(cases, given), os.environ)
    with verdict():
        if given["as_json"]:
            click.echo(drawn.roofline.model_dump_json(indent=2))
        else:
            for line in roofline_lines(drawn.roofline):
                click.echo(line)
            for path in drawn.files:
                click.echo(f"{'Picture:' if path.suffix != '.json' else 'Figures:':<9}{_shown(path)}")
        if drawn.step_down:
            click.echo(drawn.step_down, err=True)
    return int(Exit.PASS)


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
