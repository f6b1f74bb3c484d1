"""``ratchet replay``: recorded pairs, judged again or drawn into pull requests."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ratchet.cli.options import common, judging, request_of
from ratchet.cli.shown import show, verdict
from ratchet.errors import Exit

if TYPE_CHECKING:
    from ratchet.pipeline import Request


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
    from ratchet import pipeline
    from ratchet.judge.recorded import worst_code
    from ratchet.report.replay import file_line, judged_json, judged_lines

    done = pipeline.replay(files, request, os.environ)
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
    from ratchet import pipeline
    from ratchet.report.replay import simulation_json, simulation_lines

    runs, seed = given["simulate"], given["draw_seed"] or 0
    done = pipeline.replay_simulated(files, request, runs, seed, given["plant"], os.environ)
    with verdict():
        if given["as_json"]:
            click.echo(json.dumps(simulation_json(done), indent=2, ensure_ascii=False))
        else:
            click.echo("\n".join(simulation_lines(done)))
    return int(Exit.PASS)
