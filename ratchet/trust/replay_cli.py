"""The command replay. Loaded by `ratchet.core.cli` when it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import common, judging, request_of
from ratchet.core.cli.output import print_result, show
from ratchet.core.errors import Exit, UsageError
from ratchet.core.untrusted import log_line
from ratchet.trust.calibration_report import judged_json, simulation_json, simulation_lines
from ratchet.trust.replay import replay, replay_simulated


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--cases", multiple=True, metavar="A,B", help="Only these cases, benchmarks, configs or globs of these.")
@click.option("--confidence", help="Confidence of the intervals (default: 0.95).")
@click.option("--false-alarm", help="How often a whole run of unchanged code may be red (default: 0.1%).")
@click.option("--simulate", type=int, metavar="N", help="Draw this many pull requests from the pairs and count the red ones.")
@click.option("--pairs", type=int, metavar="K", help="With --simulate: most pairs of a case (default: the setting pairs).")
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
    if options["simulate"] is not None:
        seed = options["draw_seed"] or 0
        simulated = replay_simulated(files, request, options["simulate"], seed, options["plant"], os.environ)
        print_result(simulation_json(simulated), simulation_lines(simulated), as_json=options["as_json"])
        return int(Exit.PASS)
    for option, value in (("--pairs", options["pairs"]), ("--seed", options["draw_seed"]), ("--plant", options["plant"] or None)):
        if value is not None:
            raise UsageError(f"{option} works with --simulate only.", f"Give --simulate N too, or leave {option} out.")
    done = replay(files, request, os.environ)
    codes = {file.report.exit_code for file in done}
    code = next((int(worst) for worst in (Exit.REGRESSION, Exit.NOT_MEASURED) if worst in codes), int(Exit.PASS))
    if options["as_json"]:
        print_result(judged_json(done, code), (), as_json=True)
        return code
    for file in done:
        print_result(None, [f"# {log_line(file.file)}"] if len(done) > 1 else [], as_json=False)
        show(file.report, as_json=False)
    return code
