"""Commands that measure this checkout: check, run and bisect. Loaded by `ratchet.cli` when one of them is called.

Each makes a `Request` of its options, calls one function of `ratchet.commands`, prints, and returns the exit code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from ratchet.cli.options import (
    common,
    gpu_list,
    harness,
    judging,
    measuring,
    reference,
    request_of,
    shard,
)
from ratchet.cli.output import print_paths, print_result, progressing, show, shown
from ratchet.commands.bisect import bisect
from ratchet.commands.check import check
from ratchet.commands.output import write
from ratchet.commands.request import CommandResult
from ratchet.commands.run import run
from ratchet.errors import DamageError, Exit, OutputError
from ratchet.judge.bisection import half_of
from ratchet.report.lines import search_lines
from ratchet.report.profile import profile_lines


@click.command("check")
@click.argument("cases", nargs=-1)
@reference("the one before HEAD; HEAD if there are uncommitted changes")
@click.option("--bench-from", type=click.Choice(["head"]), help="Use the head's benchmark files on both sides.")
@click.option("--time-identical", is_flag=True, help="Also time cases whose code is the same on both sides.")
@click.option("--no-build-cache", is_flag=True, help="Build both trees from scratch.")
@click.option("--no-profile", is_flag=True, help="Do not profile the cases that changed.")
@click.option(
    "--gpus", type=gpu_list, metavar="all|0,1", help="Spread the cases over these GPUs of one kind; a --command gets them all."
)
@click.option(
    "--shard", type=shard, metavar="I/N", help="Measure every N-th case only, from the I-th on; `ratchet merge` joins the shards."
)
@harness
@measuring
@judging
@common
def check_command(cases: tuple[str, ...], **options: Any) -> int:
    """Compare this checkout with an earlier commit, side by side, and fail on a regression.

    CASES are cases, benchmarks, configs or globs of these (see `ratchet list`); all by default.
    """
    if sum(map(bool, (options["base"], options["merge_base"], options["against_baseline"]))) > 1:
        raise click.UsageError("--base, --merge-base and --against-baseline exclude each other.")
    return _measure(check, cases, options)


@click.command("run")
@click.argument("cases", nargs=-1)
@harness
@measuring
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
    except OutputError as error:
        click.echo(f"ratchet: {error}", err=True)
        return int(max(Exit.REGRESSION, done.report.exit_code) if done.report.exit_code else Exit.NOT_MEASURED)
    print_paths(paths, quiet=options["as_json"])
    if done.damage:
        raise DamageError(done.damage)
    return done.report.exit_code


@click.command("bisect")
@click.argument("case")
@click.argument("good")
@click.argument("bad", default="HEAD")
@click.option("--again", is_flag=True, help="Forget what an earlier run of this search has measured.")
@click.option("--no-profile", is_flag=True, help="Do not profile the commit and its parent.")
@measuring
@common
def bisect_command(case: str, good: str, bad: str, **options: Any) -> int:
    """Search the commits after GOOD, up to BAD, for the one that changed CASE.

    Each commit that is tried runs the benchmark files of this checkout, and is compared with GOOD in pairs. Commits that do not
    build are skipped, those with the same code are not timed. A search that was interrupted goes on when it is called again.

    Exits with 1 where a commit made CASE slower, with 0 where none did, with 3 where that could not be measured.
    """
    with progressing(options) as progress:
        done = bisect(good, bad, request_of((case,), options), progress, os.environ, again=options["again"])
    paths = write(done.check, os.environ) if done.check else []
    if done.check and not options["as_json"]:
        report = done.check.report
        show(report, as_json=False)
        lines = [line for profile in report.profiles for line in profile_lines(profile, shown(done.check.results))]
        print_result(None, lines, as_json=False)
        print_paths(paths, quiet=False)
    print_result(done.search, search_lines(done.search), as_json=options["as_json"])
    if done.search.suspects:
        return int(Exit.REGRESSION if half_of(done.search) > 0 else Exit.PASS)
    return int(Exit.PASS if done.search.looked_at[-1].verdict == "good" else Exit.NOT_MEASURED)
