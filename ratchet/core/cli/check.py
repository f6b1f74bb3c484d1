"""Commands that measure this checkout: check and run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from ratchet.core.check import check
from ratchet.core.cli.options import (
    common,
    exchange,
    gpu_list,
    harness,
    judging,
    measuring,
    measuring_with,
    out_file,
    reference,
    request_of,
    shard,
)
from ratchet.core.cli.output import print_paths, progressing, show, write_exchange
from ratchet.core.command_result import write
from ratchet.core.errors import DamageError, Exit, OutputError
from ratchet.core.request import CommandResult
from ratchet.core.run import run


@click.command("check")
@click.argument("cases", nargs=-1)
@reference("the one before HEAD; HEAD if there are uncommitted changes")
@click.option("--bench-from", type=click.Choice(["head"]), help="Use the head's benchmark files on both sides.")
@click.option("--time-identical", is_flag=True, help="Also time cases whose code is the same on both sides.")
@click.option("--tune-each-process", is_flag=True, help="Let Triton's autotuner choose anew in each process.")
@click.option(
    "--env",
    multiple=True,
    metavar="new|reference=WHAT",
    help="Give a side an environment of its own: an interpreter, a virtual environment, a file of requirements, or"
    " requirements such as triton==3.5.0, put before what is installed here. Without --base, both sides are this checkout.",
)
@click.option("--requirements", nargs=2, metavar="NEW REFERENCE", help="Two files of requirements, as two --env.")
@click.option("--no-build-cache", is_flag=True, help="Build both trees from scratch.")
@click.option("--no-profile", is_flag=True, help="Do not profile the cases that changed.")
@click.option(
    "--gpus", type=gpu_list, metavar="all|0,1", help="Spread the cases over these GPUs of one kind; a --command gets them all."
)
@click.option(
    "--shard",
    type=shard,
    metavar="I/N",
    help="Measure every N-th case only, from the I-th on; `ratchet ci merge` joins the shards.",
)
@harness
@measuring
@judging
@exchange
@common
def check_command(cases: tuple[str, ...], **options: Any) -> int:
    """Compare this checkout with an earlier commit, side by side, and fail on a regression.

    CASES are cases, benchmarks, configs or globs of these (see `ratchet doctor cases`); all by default.
    """
    if sum(map(bool, (options["base"], options["merge_base"], options["against_baseline"]))) > 1:
        raise click.UsageError("--base, --merge-base and --against-baseline exclude each other.")
    return _measure(check, cases, options)


@click.command("run")
@click.argument("cases", nargs=-1)
@out_file("--seed-format", "Also write config and performance.mean_time_ms as plain JSON, which `ratchet compare` reads too.")
@harness
@measuring_with("Fresh processes for each case (default: 8).")
@common
def run_command(cases: tuple[str, ...], **options: Any) -> int:
    """Time this checkout alone, in place, and write results/current.json.

    Each case is timed in eight fresh processes, unless --pairs says otherwise.
    """
    return _measure(run, cases, options)


def _measure(command: Callable[..., CommandResult], cases: tuple[str, ...], options: dict[str, Any]) -> int:
    with progressing(options) as progress:
        done = command(request_of(cases, options), progress, os.environ)
    show(done.report, as_json=options["as_json"])
    try:
        paths = write(done, os.environ)
        write_exchange(done.report, options, os.environ, done.run)
    except OutputError as error:
        click.echo(f"ratchet: {error}", err=True)
        return int(max(Exit.REGRESSION, done.report.exit_code) if done.report.exit_code else Exit.NOT_MEASURED)
    print_paths(paths, quiet=options["as_json"])
    if done.damage:
        raise DamageError(done.damage)
    return done.report.exit_code
