"""The command `ratchet ci merge`: join the shards of one check, measured on several runners, into one run and one verdict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ratchet import tools
from ratchet.core.cli.options import common, request_of
from ratchet.core.cli.output import print_paths, show
from ratchet.core.command_result import write
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.files import load
from ratchet.core.records.run import RunRecord
from ratchet.core.request import CommandResult, Request, load_baseline, settings_of, writable
from ratchet.shards.judge import joined


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


def merge(paths: Sequence[Path], request: Request, environ: Mapping[str, str]) -> CommandResult:
    """Join the shards and judge them as one run; the profiles beside each are copied into the results folder.

    Raises UsageError where they do not belong together, IncompleteError where one is missing.
    """
    root, settings = settings_of(request, environ)
    results = writable(root / settings.results)
    run = joined([load(path, RunRecord) for path in paths]).model_copy(update={"command": request.command})
    profile_files = tools.part("profile_files")
    for path in paths:
        profile_files.take_profiles(path.parent, results)
    report = judge_run(run, load_baseline(results))
    return CommandResult(run, profile_files.with_stored_profiles(report, run, results), results)
