"""Commands that judge recorded runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, judging, request_of
from ratchet.cli.shown import print_paths, show, verdict


@click.command()
@click.argument("reference", type=click.Path(path_type=Path), metavar="A.json")
@click.argument("head", type=click.Path(path_type=Path), metavar="B.json")
@judging
@common
def compare(reference: Path, head: Path, **given: Any) -> int:
    """Compare two recorded runs of one machine: is B slower than A?"""
    from ratchet import pipeline

    report = pipeline.compare(reference, head, request_of((), given), os.environ)
    with verdict():
        show(report, as_json=given["as_json"])
    return report.exit_code


@click.command()
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]", required=False)
@judging
@common
def report(recorded: Path | None, **given: Any) -> int:
    """Judge a recorded run again and write its report (default: results/current.json)."""
    from ratchet import pipeline

    done = pipeline.judge_again(recorded, request_of((), given), os.environ)
    with verdict():
        show(done.report, as_json=given["as_json"])
    paths = pipeline.write_report(done)
    with verdict():
        print_paths(paths, quiet=given["as_json"])
    return done.report.exit_code
