"""``ratchet tune``: find the values of its parameters that make a case fastest here, or use what an earlier search recorded.

Loaded by `ratchet.core.cli` when it is called. The work is done by `ratchet.tune`; this file reads options and prints.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ratchet.core import processes
from ratchet.core.cli.options import OutFile, common, device, duration, request_of, waiting
from ratchet.core.cli.output import print_result, progressing
from ratchet.core.errors import Exit
from ratchet.core.records.files import dumps, load
from ratchet.core.untrusted import log_line
from ratchet.tune.command import apply_recorded, tune
from ratchet.tune.joint import joint, joint_lines
from ratchet.tune.records import TuningRecord
from ratchet.tune.subject import TuneRequest
from ratchet.tune.suggestions import tuning_lines
from ratchet.tune.t4 import export_tuning


@click.command("tune")
@click.argument("case", required=False)
@click.option(
    "--time-budget", type=duration, default="20m", show_default=True, help="Time for the whole search; 0: until all was tried."
)
@click.option("--max-evaluations", type=click.IntRange(min=1), help="Try no more configurations than this.")
@click.option(
    "--strategy", default="auto", show_default=True, help="auto, exhaustive, random or another: see `ratchet explain tuning`."
)
@click.option("--seed", "search_seed", type=int, default=0, show_default=True, help="Seed of the search.")
@click.option("--resume", is_flag=True, help="Continue the record of an earlier run on this machine.")
@click.option("--apply", is_flag=True, help="Write the recommended values, if there are any, to bench/tuned.json.")
@click.option(
    "--record",
    "records",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Use this record of an earlier search, without a GPU or a CASE: with --apply (repeatable) or --export.",
)
@click.option(
    "--export",
    cls=OutFile,
    type=click.Path(path_type=Path),
    help="Write the configurations of --record as a space in the T4 format.",
)
@click.option("--jointly", is_flag=True, help="Choose one set of parameters for the configs of several --record.")
@click.option("--gpus", metavar="all|0,1", help="Try configurations on these GPUs of one kind at once.")
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where the GPUs are.")
@click.option("--tuning", type=click.Path(path_type=Path), help="Folder for records and suggestions (default: tuning).")
@device
@click.option("--case-timeout", help="Time limit for one step of a configuration (default: 120s).")
@waiting
@common
def tune_command(case: str | None, records: tuple[Path, ...], **options: Any) -> int:
    """Search the parameters of CASE within a budget, and confirm the best against today's values in pairs.

    Writes tuning/CASE.MACHINE.json and tuning/suggestions.md; an earlier record of that name is moved to tuning/earlier.
    Recommends a change only where it is proven faster by the threshold for improvements (5 %).
    """
    if (case is None) == (not records):
        raise click.UsageError("Name one case to tune (see `ratchet doctor cases`), or a --record.")
    if records:
        return _use_records(records, options)
    if options["jointly"]:
        raise click.UsageError("--jointly chooses among what searches tried: name their records with --record.")
    if options["export"]:
        raise click.UsageError("--export writes what a --record tried: name one.")
    return _tune(str(case), options)


def _use_records(paths: tuple[Path, ...], options: dict[str, Any]) -> int:
    out: Path | None = options["export"]
    if options["jointly"]:
        choice = joint([load(path, TuningRecord) for path in paths])
        print_result(choice, joint_lines(choice), as_json=options["as_json"])
        return int(Exit.PASS)
    if not options["apply"] and out is None:
        raise click.UsageError("--record takes a record of an earlier search: say --apply, --jointly or --export FILE.")
    if out is not None and len(paths) > 1:
        raise click.UsageError(f"--export takes one record at a time, not {len(paths)}.")
    lines = []
    if out is not None:
        lines.append(f"Written: {os.path.relpath(export_tuning(paths[0], out))}")
    if options["apply"]:
        applied = apply_recorded(paths, request_of((), options), os.environ)
        lines += [*map(log_line, applied.lines), f"Written: {os.path.relpath(applied.path)}"]
    print_result(None, lines, as_json=False)
    return int(Exit.PASS)


def _tune(case: str, options: dict[str, Any]) -> int:
    request = TuneRequest(
        request=replace(request_of((case,), options), patterns=(case,)),
        budget_s=options["time_budget"] or None,
        max_evaluations=options["max_evaluations"],
        strategy=options["strategy"],
        seed=options["search_seed"],
        resume=options["resume"],
        executor=options["executor"],
        apply=options["apply"],
        folder=options["tuning"].absolute() if options["tuning"] else None,
    )
    with progressing(options) as progress:
        try:
            done = tune(request, progress, os.environ)
        except KeyboardInterrupt:
            progress.finish()
            more = " --resume continues it." if processes.WRITTEN else ""
            click.echo(f"ratchet: {processes.interruption_sentence()}{more}", err=True)
            return int(Exit.INTERRUPTED)
    lines = [*tuning_lines(done.record), *(f"Written: {os.path.relpath(path)}" for path in done.paths)]
    if done.kept:
        lines.append(f"Kept: {os.path.relpath(done.kept)}, an earlier record of this case")
    print_result(None, [dumps(done.record).rstrip()] if options["as_json"] else lines, as_json=False)
    return int(Exit.PASS)
