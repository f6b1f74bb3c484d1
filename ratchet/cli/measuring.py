"""Commands that measure."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ratchet.cli.options import common, judging, measuring, reference, request_of
from ratchet.cli.shown import print_paths, progressing, show, verdict
from ratchet.errors import DamageError, Exit, OutputError

if TYPE_CHECKING:
    from ratchet.pipeline import Done


@click.command()
@click.argument("cases", nargs=-1)
@reference("the one before HEAD; HEAD if there are uncommitted changes")
@click.option("--time-identical", is_flag=True, help="Time cases whose machine code is the same on both sides too.")
@click.option("--no-build-cache", is_flag=True, help="Build both trees anew.")
@click.option("--no-profile", is_flag=True, help="Do not profile the cases that changed.")
@click.option("--gpus", metavar="all|0,1", help="Spread the cases over these GPUs of one kind.")
@click.option("--shard", metavar="I/N", help="Measure every N-th case only, from the I-th on; `ratchet merge` joins the parts.")
@measuring
@judging
@common
def check(cases: tuple[str, ...], **given: Any) -> int:
    """Compare this checkout with an earlier commit, side by side, and fail on a regression.

    CASES are cases, benchmarks, configs or globs of these (see `ratchet list`); all by default.
    """
    from ratchet import pipeline

    if sum(map(bool, (given["base"], given["merge_base"], given["against_baseline"]))) > 1:
        raise click.UsageError("--base, --merge-base and --against-baseline exclude each other.")
    return _measured(pipeline.check, cases, given)


@click.command()
@click.argument("cases", nargs=-1)
@measuring
@common
def run(cases: tuple[str, ...], **given: Any) -> int:
    """Time this checkout alone, in place, and write results/current.json."""
    from ratchet import pipeline

    return _measured(pipeline.run, cases, given)


def _measured(command: Callable[..., Done], cases: tuple[str, ...], given: dict[str, Any]) -> int:
    from ratchet import pipeline

    with progressing(given) as progress:
        done = command(request_of(cases, given), progress, os.environ)
    with verdict():
        show(done.report, as_json=given["as_json"])
    try:
        paths = pipeline.write(done, os.environ)
    except OutputError as error:
        click.echo(f"ratchet: {error}", err=True)
        return int(max(Exit.REGRESSION, done.report.exit_code) if done.report.exit_code else Exit.NOT_MEASURED)
    with verdict():
        print_paths(paths, quiet=given["as_json"])
    if done.damage:
        raise DamageError(done.damage)
    return done.report.exit_code
