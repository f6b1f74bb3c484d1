"""``ratchet calibrate``: can this machine hold the gate?"""

from __future__ import annotations

import os
from typing import Any

import click

from ratchet.cli.options import common, judging, measuring, request_of
from ratchet.cli.shown import progressing, verdict
from ratchet.errors import Exit


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
    from ratchet import pipeline
    from ratchet.config import parse_duration
    from ratchet.report.calibration import calibration_lines

    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise click.UsageError(f"--time: {error}") from None
    if seconds <= 0:
        raise click.UsageError(f"--time: {duration} leaves no time to measure.")
    with progressing(given) as progress:
        done = pipeline.calibrate(request_of(cases, given), seconds, progress, os.environ)
    paths = pipeline.write_calibration(done)
    with verdict():
        if given["as_json"]:
            click.echo(done.calibration.model_dump_json(indent=2))
        else:
            for line in [*calibration_lines(done.calibration), *(f"Written: {path}" for path in paths)]:
                click.echo(line)
    return int(Exit.PASS if done.calibration.holds else Exit.NOT_MEASURED)
