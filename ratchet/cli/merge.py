"""`ratchet merge`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, request_of
from ratchet.cli.shown import print_paths, show, verdict


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@common
def merge(runs: tuple[Path, ...], **given: Any) -> int:
    """Join the shards of one check (see `ratchet check --shard`) into one run and one verdict.

    RUNS are the current.json of all shards; profiles beside them come along.
    """
    from ratchet import pipeline

    done = pipeline.merge(runs, request_of((), given), os.environ)
    with verdict():
        show(done.report, as_json=given["as_json"])
    paths = pipeline.write(done, os.environ)
    with verdict():
        print_paths(paths, quiet=given["as_json"])
    return done.report.exit_code
