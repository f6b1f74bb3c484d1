"""``ratchet experiment …``: a session of experiments on one case. Loaded by `ratchet.cli` when it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

import click

from ratchet.cli.options import common, device, duration, request_of, waiting
from ratchet.cli.output import print_result, progressing, shown
from ratchet.commands.experiment.run import RunRequest, run
from ratchet.commands.experiment.session import handoff, show_experiment, show_status, status_of
from ratchet.commands.experiment.start import StartRequest, start
from ratchet.commands.request import results_folder
from ratchet.errors import Exit
from ratchet.records.experiment import Category
from ratchet.report.experiment import baseline_lines, experiment_lines, status_lines

_pairs = click.option("--pairs", type=click.IntRange(8, 200), help="Most pairs of fresh processes (default: 20).")
_timeout = click.option("--case-timeout", help="Time limit for one step of a case (default: 60s).")


@click.group("experiment")
def experiment_group() -> None:
    """Try changes one by one on a pipeline: each is kept or discarded by what the intervals show."""


@experiment_group.command("start")
@click.argument("case")
@click.option("--tests", default="", metavar="COMMAND", help="Test command of each experiment, split into words; no shell.")
@click.option("--test-timeout", type=duration, default="10m", show_default=True, help="Time limit for the tests.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Begin no experiment later than this after the start.")
@click.option(
    "--import", "table", type=click.Path(path_type=Path), help="Begin with the lines of a table, such as .codeflash/results.tsv."
)
@click.option("--again", is_flag=True, help="Close the session that is open; its lines stay in the table.")
@_pairs
@_timeout
@device
@waiting
@common
def start_command(case: str, **options: Any) -> int:
    """Profile CASE and open a session.

    The working tree as it is becomes the first reference; the noise of this machine is measured with it.
    """
    wanted = StartRequest(options["tests"], options["test_timeout"], options["minutes"], options["table"], options["again"])
    with progressing(options) as progress:
        session = start(wanted, request_of((case,), options), progress, os.environ)
    print_result(session, baseline_lines(session), as_json=options["as_json"])
    return int(Exit.PASS)


@experiment_group.command("run")
@click.option("-m", "--message", "description", required=True, help="What was changed, and why it should be faster.")
@click.option("--stage", required=True, help="Stage in which the gain should show; e2e for the whole call.")
@click.option("--pattern", required=True, help="What was wrong, such as pageable-h2d or kernel-fusion.")
@click.option("--category", type=click.Choice(get_args(Category)), help="Its category, where the pattern is a new one.")
@click.option("--micro", default="", metavar="CASE", help="Another case, which times only what was changed.")
@_pairs
@_timeout
@device
@waiting
@common
def run_command(**options: Any) -> int:
    """Try the working tree: keep or discard?

    It is compared with what was kept last.

    Exits with 0 for keep, with 1 for discard and crash, with 3 where nothing could be measured.
    """
    names = ("description", "stage", "pattern", "category", "micro")
    wanted = RunRequest(**{name: options[name] for name in names})
    with progressing(options) as progress:
        session, record = run(wanted, request_of((), options), progress, os.environ)
    lines = [*experiment_lines(record), *status_lines(status_of(session))]
    print_result(record, lines, as_json=options["as_json"])
    return int(Exit.PASS if record.decision.status == "keep" else Exit.REGRESSION)


@experiment_group.command("status")
@common
def status_command(**options: Any) -> int:
    """Say what was gained, and what to try next.

    Also whether the best could be luck, and whether a limit of the machine is reached.
    """
    status = show_status(results_folder(request_of((), options), os.environ))
    print_result(status, status_lines(status), as_json=options["as_json"])
    return int(Exit.PASS)


@experiment_group.command("show")
@click.argument("number", type=click.IntRange(1), required=False)
@common
def show_command(number: int | None, **options: Any) -> int:
    """Show experiment NUMBER again, by default the last one."""
    record = show_experiment(results_folder(request_of((), options), os.environ), number)
    print_result(record, experiment_lines(record), as_json=options["as_json"])
    return int(Exit.PASS)


@experiment_group.command("handoff")
@common
def handoff_command(**options: Any) -> int:
    """Print HANDOFF.md, for whoever goes on."""
    path, text = handoff(results_folder(request_of((), options), os.environ))
    print_result({"path": shown(path), "text": text}, text.splitlines(), as_json=options["as_json"])
    return int(Exit.PASS)
