"""Commands that try the gate and its machines: calibrate and soak. Loaded by `ratchet.core.cli` when one of them is called."""

from __future__ import annotations

import os
from typing import Any

import click

from ratchet.core.cli.options import common, duration, harness, judging, measuring, parsed, request_of
from ratchet.core.cli.output import print_result, progressing
from ratchet.core.config import parse_fraction
from ratchet.core.errors import Exit
from ratchet.trust.calibrate import calibrate, write_calibration
from ratchet.trust.calibration_report import calibration_lines
from ratchet.trust.report import soak_json, soak_lines
from ratchet.trust.soak import exit_code, report_soak, soak


def planted_share(text: str) -> float:
    """Convert ``3.5%`` to a fraction. Raises ValueError."""
    share = parse_fraction(text)
    if not 0.005 <= share <= 1:
        raise ValueError("take a slowdown from 0.5% to 100%")
    return share


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


@click.command("soak")
@click.argument("cases", nargs=-1)
@click.option("--time", "time_s", type=duration, default="30m", show_default=True, help="How long to go on.")
@click.option(
    "--plant",
    type=parsed(planted_share, "share"),
    metavar="3.5%",
    help="Slow three cases of every fourth check by about so much, and count these.",
)
@click.option("--report", "only_report", is_flag=True, help="Measure nothing: show what the checks so far say.")
@measuring
@judging
@common
def soak_command(cases: tuple[str, ...], time_s: float, plant: float | None, *, only_report: bool, **options: Any) -> int:
    """Check unchanged code again and again: how often is this gate red without a reason?

    Each decision is made as `ratchet check` makes it, and is kept in results/soak/ at once. The device is held only while nobody
    else wants it: a check that comes gets it within seconds. Exits with 3 where more is red than promised, beyond chance.
    """
    if time_s <= 0:
        raise click.UsageError("--time leaves no time to measure.")
    request = request_of(cases, options)
    with progressing(options) as progress:
        found = report_soak(request, os.environ) if only_report else soak(request, time_s, plant, progress, os.environ)
    print_result(soak_json(found), soak_lines(found), as_json=options["as_json"])
    return int(exit_code(found))
