"""Commands that measure (check, run, calibrate), and those that judge recorded runs again (compare, report, merge, replay).

Loaded by `ratchet.cli` when one of them is called. Each makes a `Request` of its options, calls one function of
`ratchet.commands`, prints, and returns the exit code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import (
    common,
    duration,
    gpu_list,
    harness,
    harness_format,
    judging,
    measuring,
    reference,
    request_of,
    shard,
)
from ratchet.cli.output import print_paths, print_result, progressing, show
from ratchet.commands.calibrate import calibrate, write_calibration
from ratchet.commands.check import check
from ratchet.commands.compare import compare, judge_again, merge
from ratchet.commands.output import write, write_report
from ratchet.commands.replay import replay, replay_simulated
from ratchet.commands.request import CommandResult, Request
from ratchet.commands.run import run
from ratchet.errors import DamageError, Exit, OutputError, UsageError
from ratchet.judge.replay import worst_code
from ratchet.report.calibration import (
    calibration_lines,
    file_line,
    judged_json,
    judged_lines,
    simulation_json,
    simulation_lines,
)


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


@click.command("calibrate")
@click.argument("cases", nargs=-1)
@click.option("--time", "time_s", type=duration, default="10m", show_default=True, help="How long to measure.")
@harness
@measuring
@judging
@common
def calibrate_command(cases: tuple[str, ...], time_s: float, **options: Any) -> int:
    """Measure this checkout against itself: what can this machine tell apart, and can it hold the gate?

    For each case: the spread between pairs, how often unchanged code would be red, how often a slowdown a sixth beyond the gate
    would be caught, the smallest detectable effect (MDE), and the smallest gate that can be held. Exits with 3 where the
    configured gate cannot.
    """
    if time_s <= 0:
        raise click.UsageError("--time leaves no time to measure.")
    with progressing(options) as progress:
        done = calibrate(request_of(cases, options), time_s, progress, os.environ)
    paths = write_calibration(done)
    lines = [*calibration_lines(done.calibration), *(f"Written: {path}" for path in paths)]
    print_result(done.calibration, lines, as_json=options["as_json"])
    return int(Exit.PASS if done.calibration.holds else Exit.NOT_MEASURED)


@click.command("compare")
@click.argument("reference", type=click.Path(path_type=Path), metavar="A.json")
@click.argument("head", type=click.Path(path_type=Path), metavar="B.json")
@harness_format
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


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--cases", multiple=True, metavar="A,B", help="Only these cases, benchmarks, configs or globs of these.")
@click.option("--confidence", help="Confidence of the intervals (default: 0.95).")
@click.option("--false-alarm", help="How often a whole run of unchanged code may be red (default: 0.1%).")
@click.option("--simulate", type=int, metavar="N", help="Draw this many pull requests from the pairs and count the red ones.")
@click.option("--pairs", type=int, metavar="K", help="With --simulate: most pairs that a case takes (default: 20).")
@click.option("--seed", "draw_seed", type=int, help="With --simulate: seed of the draws (default: 0).")
@click.option("--plant", multiple=True, metavar="CASE=1.035", help="With --simulate: make the head of a case 3.5 % slower.")
@judging
@common
def replay_command(files: tuple[Path, ...], **options: Any) -> int:
    """Judge recorded pairs again: by another gate, or many times over.

    A FILE is a recorded run (results/current.json), or a NumPy archive NAME.npz with two arrays of milliseconds for every case,
    CASE|A (the reference) and CASE|B (the head), each of shape (pairs, blocks, samples). Nothing is measured or written.

    With --simulate, pull requests are made by drawing each case's pairs from all files, with replacement, and are judged as
    `ratchet check` judges. It prints any_red, the share of pull requests with a red case among the cases in which nothing was
    planted; caught, the share of planted cases that are red (null without --plant); inconclusive, the share of cases without an
    answer; and pairs_mean, how many pairs a case took. It exits with 0.
    """
    patterns = tuple(name.strip() for group in options["cases"] for name in group.split(",") if name.strip())
    request = request_of(patterns, options)
    request = replace(request, options={**request.options, **{key: options[key] for key in ("confidence", "false_alarm")}})
    if options["simulate"] is not None:
        seed = options["draw_seed"] or 0
        simulated = replay_simulated(files, request, options["simulate"], seed, options["plant"], os.environ)
        print_result(simulation_json(simulated), simulation_lines(simulated), as_json=options["as_json"])
        return int(Exit.PASS)
    for option, value in (("--pairs", options["pairs"]), ("--seed", options["draw_seed"]), ("--plant", options["plant"] or None)):
        if value is not None:
            raise UsageError(f"{option} works with --simulate only.", f"Give --simulate N too, or leave {option} out.")
    return _judge_files(files, request, as_json=options["as_json"])


def _judge_files(files: tuple[Path, ...], request: Request, *, as_json: bool) -> int:
    done = replay(files, request, os.environ)
    code = worst_code(file.judged for file in done)
    if as_json:
        print_result(judged_json(done, code), (), as_json=True)
        return code
    for file in done:
        print_result(None, [file_line(file)] if len(done) > 1 else [], as_json=False)
        if file.report:
            show(file.report, as_json=False)
        else:
            print_result(None, judged_lines(file.judged), as_json=False)
    return code
