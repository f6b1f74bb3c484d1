"""Commands that judge recorded runs again: compare, report and merge.

Loaded by `ratchet.core.cli` when one of them is called. None of them measures.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import common, harness_format, judging, machine, request_of
from ratchet.core.cli.output import print_paths, show
from ratchet.core.command_result import write, write_report
from ratchet.core.recorded import compare, judge_again, merge


@click.command("compare")
@click.argument("reference", type=click.Path(path_type=Path), metavar="A.json")
@click.argument("head", type=click.Path(path_type=Path), metavar="B.json")
@harness_format
@machine
@judging
@common
def compare_command(reference: Path, head: Path, **options: Any) -> int:
    """Compare two recorded runs of one machine, or two files of another harness: is B slower than A?"""
    report = compare(reference, head, options.pop("format"), request_of((), options), os.environ)
    show(report, as_json=options["as_json"])
    return report.exit_code


@click.command("report")
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]", required=False)
@judging
@common
def report_command(recorded: Path | None, **options: Any) -> int:
    """Judge a recorded run again and write its report (default: results/current.json)."""
    done = judge_again(recorded, request_of((), options), os.environ)
    show(done.report, as_json=options["as_json"])
    print_paths(write_report(done), quiet=options["as_json"])
    return done.report.exit_code


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@common
def merge_command(runs: tuple[Path, ...], **options: Any) -> int:
    """Join the shards of one check (see `ratchet check --shard`) into one run and one verdict.

    RUNS are the current.json of all shards; profiles beside them come along.
    """
    done = merge(runs, request_of((), options), os.environ)
    show(done.report, as_json=options["as_json"])
    print_paths(write(done, os.environ), quiet=options["as_json"])
    return done.report.exit_code
