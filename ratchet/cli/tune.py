"""``ratchet tune --record``: what an earlier search recorded is applied or exported, without a GPU."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ratchet.cli.options import common, device, request_of
from ratchet.cli.output import progressing, verdict
from ratchet.errors import Exit

if TYPE_CHECKING:
    from ratchet.commands.tune.subject import TuneRequest


def recorded(paths: tuple[Path, ...], given: dict[str, Any]) -> int:
    """Raises click.UsageError where it is not said what to do, or one export would be of several records."""
    from ratchet.commands.tune.recorded import apply_recorded, export_tuning
    from ratchet.untrusted import log_line

    out: Path | None = given["export"]
    if not given["apply"] and out is None:
        raise click.UsageError("--record takes a record of an earlier search: say --apply or --export FILE.")
    if out is not None and len(paths) > 1:
        raise click.UsageError(f"--export takes one record at a time, not {len(paths)}.")
    lines = []
    if out is not None:
        lines.append(f"Written: {os.path.relpath(export_tuning(paths[0], out))}")
    if given["apply"]:
        applied = apply_recorded(paths, request_of((), given), os.environ)
        lines += [*map(log_line, applied.lines), f"Written: {os.path.relpath(applied.path)}"]
    with verdict():
        for line in lines:
            click.echo(line)
    return int(Exit.PASS)


# ``ratchet tune``: which values of its parameters make a case fastest here?


@click.command()
@click.argument("case", required=False)
@click.option("--time-budget", default="20m", show_default=True, help="How long it may take in all; 0: until all was tried.")
@click.option("--max-evaluations", type=click.IntRange(min=1), help="Try no more configurations than this.")
@click.option("--strategy", default="auto", show_default=True, help="auto, exhaustive, random or another: see docs/tuning.md.")
@click.option("--seed", "search_seed", type=int, default=0, show_default=True, help="Of the search's own chances.")
@click.option("--resume", is_flag=True, help="Go on with the record of an earlier run on this machine.")
@click.option("--apply", is_flag=True, help="Write what is recommended, if anything is, to bench/tuned.json.")
@click.option(
    "--record",
    "records",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Take this record of an earlier search, which needs no GPU and no CASE: with --apply (repeatable) or --export.",
)
@click.option("--export", type=click.Path(path_type=Path), help="Write what --record tried as a space in the T4 format.")
@click.option("--gpus", metavar="all|0,1", help="Try configurations on these GPUs of one kind at once.")
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where the GPUs are.")
@click.option("--tuning", type=click.Path(path_type=Path), help="Folder for records and suggestions (default: tuning).")
@click.option(
    "--replay", type=click.Path(path_type=Path), help="Search this recorded space (T4) instead, which needs no GPU and no CASE."
)
@device
@click.option("--case-timeout", help="Longest that one step of a configuration may take (default: 120s).")
@click.option("--wait", default="0s", help="How long to wait for a device that another check holds (default: not at all).")
@click.option("--quiet", is_flag=True, help="No progress.")
@common
def tune(case: str | None, replay: Path | None, records: tuple[Path, ...], **given: Any) -> int:
    """Search the parameters of CASE within a budget, and confirm the best against today's values in pairs.

    Writes tuning/CASE.MACHINE.json and tuning/suggestions.md; an earlier record in that place is moved to tuning/earlier.
    Recommends a change only where one is faster by the threshold for improvements (5 %), with evidence.
    """
    if sum((case is not None, replay is not None, bool(records))) != 1:
        raise click.UsageError("Name one case to tune (see `ratchet list`), or a recorded space with --replay, or a --record.")
    if records:
        return recorded(records, given)
    if given["export"]:
        raise click.UsageError("--export writes what a --record tried: name one.")
    if replay is not None:
        return _replayed(replay, given)
    return _tuned(str(case), given)


def _tuned(case: str, given: dict[str, Any]) -> int:
    from ratchet.commands.tune.tune import tune
    from ratchet.records.files import dumps
    from ratchet.report.suggestions import tuning_lines

    asked = _asked(case, given)
    with progressing(given) as progress:
        try:
            done = tune(asked, progress, os.environ)
        except KeyboardInterrupt:
            progress.finish()
            click.echo("ratchet: interrupted; what was tried so far is kept: --resume goes on with it.", err=True)
            return int(Exit.INTERRUPTED)
    with verdict():
        if given["as_json"]:
            click.echo(dumps(done.record), nl=False)
        else:
            for line in [*tuning_lines(done.record), *(f"Written: {os.path.relpath(path)}" for path in done.paths)]:
                click.echo(line)
            if done.kept:
                click.echo(f"Kept: {os.path.relpath(done.kept)}, an earlier record of this case")
    return int(Exit.PASS)


def _asked(case: str, given: dict[str, Any]) -> TuneRequest:
    from ratchet.commands.tune.subject import TuneRequest
    from ratchet.config import parse_duration

    try:
        seconds = parse_duration(given["time_budget"])
    except ValueError as error:
        raise click.UsageError(f"--time-budget: {error}") from None
    return TuneRequest(
        request=replace(request_of((case,), given), patterns=(case,)),
        budget_s=seconds or None,
        max_evaluations=given["max_evaluations"],
        strategy=given["strategy"],
        seed=given["search_seed"],
        resume=given["resume"],
        executor=given["executor"],
        apply=given["apply"],
        folder=given["tuning"].absolute() if given["tuning"] else None,
    )


def _replayed(path: Path, given: dict[str, Any]) -> int:
    from ratchet.commands.tune.recorded import tune_replay
    from ratchet.report.suggestions import replay_lines

    result = tune_replay(path, given["max_evaluations"], given["search_seed"], given["strategy"])
    with verdict():
        if given["as_json"]:
            click.echo(result.model_dump_json(indent=2))
        else:
            for line in replay_lines(result):
                click.echo(line)
    return int(Exit.PASS)
