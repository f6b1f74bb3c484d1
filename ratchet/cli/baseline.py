"""``ratchet baseline …``: the best commit of every case so far."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, request_of
from ratchet.errors import Exit


@click.group()
def baseline() -> None:
    """The best commit of every case so far."""


@baseline.command("show")
@common
def baselineshow(**given: Any) -> int:
    """Show results/baseline.json."""
    from ratchet import pipeline
    from ratchet.report.baseline import baseline_lines

    path, stored = pipeline.show_baseline(request_of((), given), os.environ)
    if given["as_json"]:
        click.echo(stored.model_dump_json(indent=2))
    else:
        for line in baseline_lines(stored, str(path)):
            click.echo(line)
    return int(Exit.PASS)


@baseline.command("record")
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]", required=False)
@common
def baseline_record(recorded: Path | None, **given: Any) -> int:
    """Enter a recorded run into results/baseline.json: new cases, and those it proved faster than the baseline commit."""
    import json

    from ratchet import pipeline

    path, moved = pipeline.record_baseline(recorded, request_of((), given), os.environ)
    if given["as_json"]:
        click.echo(json.dumps({"path": str(path), "moved": moved}))
    elif moved:
        click.echo(f"{path}: {len(moved)} cases entered: {', '.join(moved)}")
    else:
        click.echo(f"{path}: nothing to enter; every case is there, and none was proved faster than its baseline commit.")
    return int(Exit.PASS)
