"""Commands that measure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ratchet.cli.options import common, judging, measuring, reference, request_of
from ratchet.cli.output import print_paths, progressing, show, verdict
from ratchet.errors import DamageError, Exit, OutputError

if TYPE_CHECKING:
    from ratchet.commands.request import Done, Request


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
    from ratchet.commands.check import check

    if sum(map(bool, (given["base"], given["merge_base"], given["against_baseline"]))) > 1:
        raise click.UsageError("--base, --merge-base and --against-baseline exclude each other.")
    return _measured(check, cases, given)


@click.command()
@click.argument("cases", nargs=-1)
@measuring
@common
def run(cases: tuple[str, ...], **given: Any) -> int:
    """Time this checkout alone, in place, and write results/current.json."""
    from ratchet.commands.run import run

    return _measured(run, cases, given)


def _measured(command: Callable[..., Done], cases: tuple[str, ...], given: dict[str, Any]) -> int:
    from ratchet.commands.output import write

    with progressing(given) as progress:
        done = command(request_of(cases, given), progress, os.environ)
    with verdict():
        show(done.report, as_json=given["as_json"])
    try:
        paths = write(done, os.environ)
    except OutputError as error:
        click.echo(f"ratchet: {error}", err=True)
        return int(max(Exit.REGRESSION, done.report.exit_code) if done.report.exit_code else Exit.NOT_MEASURED)
    with verdict():
        print_paths(paths, quiet=given["as_json"])
    if done.damage:
        raise DamageError(done.damage)
    return done.report.exit_code


# Commands that judge recorded runs.


@click.command()
@click.argument("reference", type=click.Path(path_type=Path), metavar="A.json")
@click.argument("head", type=click.Path(path_type=Path), metavar="B.json")
@judging
@common
def compare(reference: Path, head: Path, **given: Any) -> int:
    """Compare two recorded runs of one machine: is B slower than A?"""
    from ratchet.commands.compare import compare

    report = compare(reference, head, request_of((), given), os.environ)
    with verdict():
        show(report, as_json=given["as_json"])
    return report.exit_code


@click.command()
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]", required=False)
@judging
@common
def report(recorded: Path | None, **given: Any) -> int:
    """Judge a recorded run again and write its report (default: results/current.json)."""
    from ratchet.commands.compare import judge_again
    from ratchet.commands.output import write_report

    done = judge_again(recorded, request_of((), given), os.environ)
    with verdict():
        show(done.report, as_json=given["as_json"])
    paths = write_report(done)
    with verdict():
        print_paths(paths, quiet=given["as_json"])
    return done.report.exit_code


# `ratchet merge`.


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@common
def merge(runs: tuple[Path, ...], **given: Any) -> int:
    """Join the shards of one check (see `ratchet check --shard`) into one run and one verdict.

    RUNS are the current.json of all shards; profiles beside them come along.
    """
    from ratchet.commands.compare import merge
    from ratchet.commands.output import write

    done = merge(runs, request_of((), given), os.environ)
    with verdict():
        show(done.report, as_json=given["as_json"])
    paths = write(done, os.environ)
    with verdict():
        print_paths(paths, quiet=given["as_json"])
    return done.report.exit_code


# ``ratchet calibrate``: can this machine hold the gate?


@click.command()
@click.argument("cases", nargs=-1)
@click.option("--time", "duration", default="10m", show_default=True, help="How long to measure.")
@measuring
@judging
@common
def calibrate(cases: tuple[str, ...], duration: str, **given: Any) -> int:
    """Measure this checkout against itself: what can this machine tell apart, and can it hold the gate?

    For each case: the spread between pairs, how often unchanged code would be red, how often a slowdown a sixth beyond the gate
    would be caught, the smallest detectable effect (MDE), and the smallest gate that can be held. Exits with 3 where the
    configured gate cannot.
    """
    from ratchet.commands.calibrate import calibrate, write_calibration
    from ratchet.config import parse_duration
    from ratchet.report.calibration import calibration_lines

    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise click.UsageError(f"--time: {error}") from None
    if seconds <= 0:
        raise click.UsageError(f"--time: {duration} leaves no time to measure.")
    with progressing(given) as progress:
        done = calibrate(request_of(cases, given), seconds, progress, os.environ)
    paths = write_calibration(done)
    with verdict():
        if given["as_json"]:
            click.echo(done.calibration.model_dump_json(indent=2))
        else:
            for line in [*calibration_lines(done.calibration), *(f"Written: {path}" for path in paths)]:
                click.echo(line)
    return int(Exit.PASS if done.calibration.holds else Exit.NOT_MEASURED)


# ``ratchet replay``: recorded pairs, judged again or drawn into pull requests.


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--cases", multiple=True, metavar="A,B", help="Only these: cases, benchmarks, configs or globs of these.")
@click.option("--confidence", help="Of the intervals (default: 0.95).")
@click.option("--false-alarm", help="How often a whole run of unchanged code may be red (default: 0.1%).")
@click.option("--simulate", type=int, metavar="N", help="Draw this many pull requests from the pairs and count the red ones.")
@click.option("--pairs", type=int, metavar="K", help="With --simulate: most pairs that a case takes (default: 20).")
@click.option("--seed", "draw_seed", type=int, help="With --simulate: seed of the drawing (default: 0).")
@click.option("--plant", multiple=True, metavar="CASE=1.035", help="With --simulate: make the head of a case 3.5 % slower.")
@judging
@common
def replay_(files: tuple[Path, ...], **given: Any) -> int:
    """Judge recorded pairs again: by another gate, or many times over.

    A FILE is a recorded run (results/current.json), or a NumPy archive NAME.npz with two arrays of milliseconds for every case,
    CASE|A (the reference) and CASE|B (the head), each of shape (pairs, blocks, samples). Nothing is measured or written.

    With --simulate, pull requests are made by drawing each case's pairs from all files, with replacement, and are looked at and
    judged as `ratchet check` does. Of what it prints, any_red is the share of pull requests with a red case among the cases
    in which nothing was planted; caught is the share of planted cases that are red (null without --plant); inconclusive is the
    share of cases without an answer; pairs_mean is how many pairs a case took. It exits with 0.
    """
    from ratchet.errors import UsageError

    patterns = tuple(name.strip() for group in given["cases"] for name in group.split(",") if name.strip())
    request = request_of(patterns, given)
    request = replace(request, options={**request.options, **{key: given[key] for key in ("confidence", "false_alarm")}})
    if given["simulate"] is not None:
        return _simulate(files, request, given)
    for option, value in (("--pairs", given["pairs"]), ("--seed", given["draw_seed"]), ("--plant", given["plant"] or None)):
        if value is not None:
            raise UsageError(f"{option} is for drawing pull requests.", "Give --simulate N too, or leave it out.")
    return _judge(files, request, given)


def _judge(files: tuple[Path, ...], request: Request, given: dict[str, Any]) -> int:
    from ratchet.commands.replay import replay
    from ratchet.judge.replay import worst_code
    from ratchet.report.calibration import file_line, judged_json, judged_lines

    done = replay(files, request, os.environ)
    code = worst_code(each.judged for each in done)
    with verdict():
        if given["as_json"]:
            click.echo(json.dumps(judged_json(done, code), indent=2, ensure_ascii=False))
            return code
        for each in done:
            if len(done) > 1:
                click.echo(file_line(each))
            if each.report:
                show(each.report, as_json=False)
            else:
                click.echo("\n".join(judged_lines(each.judged)))
    return code


def _simulate(files: tuple[Path, ...], request: Request, given: dict[str, Any]) -> int:
    from ratchet.commands.replay import replay_simulated
    from ratchet.report.calibration import simulation_json, simulation_lines

    runs, seed = given["simulate"], given["draw_seed"] or 0
    done = replay_simulated(files, request, runs, seed, given["plant"], os.environ)
    with verdict():
        if given["as_json"]:
            click.echo(json.dumps(simulation_json(done), indent=2, ensure_ascii=False))
        else:
            click.echo("\n".join(simulation_lines(done)))
    return int(Exit.PASS)
