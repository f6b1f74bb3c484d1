"""Commands that jobs with rights run: `publish` and `command`. They read GitHub's variables, and never the measured code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ratchet.cli.options import judging
from ratchet.errors import Exit

if TYPE_CHECKING:
    from ratchet.commands.github.publish import Published

_report_id = click.option("--id", "report_id", default="default", help="Of the report, where a pull request has several.")


@click.command()
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option("--run-id", type=click.IntRange(min=1), envvar="RUN_ID", help="The run that measured (default: as the event says).")
@click.option("--comment/--no-comment", default=True, envvar="COMMENT", help="Whether the pull request gets a comment.")
@click.option(
    "--fail-on", type=click.Choice(["never", "regression"]), default="never", help="Whether a red verdict fails this job."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outputs as JSON instead of text.")
@_report_id
@judging
def publish(
    artifact: Path, run_id: int | None, comment: bool, fail_on: str, report_id: str, as_json: bool, **options: Any
) -> int:
    """Judge what a GPU job measured again, and publish it as a comment and a check run.

    ARTIFACT is its folder, archive or run.json; it may be missing. Baseline and thresholds are the base branch's. Exits with 0
    when it was published, whatever the verdict; with 2 for a token without rights, with 3 where it could not be published.
    """
    from ratchet.commands.github.publish import PublishRequest, publish
    from ratchet.forge.github import GitHub

    asked = PublishRequest(artifact, run_id, comment, report_id, options)
    done = publish(asked, GitHub.from_environ(os.environ), os.environ)
    _tell(done, as_json=as_json)
    if done.failed:
        raise done.failed
    return int(done.exit_code(fail_on))


@click.command()
@_report_id
def command(report_id: str) -> int:
    """Answer `/ratchet accept CASE… reason` and `/ratchet profile CASE…` in a pull request, or its label.

    Exits with 0 also where the answer is no: that stands under the pull request.
    """
    from ratchet.commands.github.command import answer
    from ratchet.commands.github.event import event_of
    from ratchet.forge.github import GitHub
    from ratchet.untrusted import log_line

    done = answer(event_of(os.environ), GitHub.from_environ(os.environ), os.environ, report_id)
    click.echo(log_line(done.sentence))
    return int(Exit.PASS)


def _tell(done: Published, *, as_json: bool) -> None:
    """Lines for the log, annotations, outputs and the step's summary."""
    from ratchet.commands.github.publish import lines_of, outputs_of, summary_of, write_published
    from ratchet.forge.actions import append_summary, write_outputs
    from ratchet.report.check_run import workflow_commands

    written = write_published(done, os.environ)
    outputs = outputs_of(done, written)
    lines = [json.dumps(outputs, ensure_ascii=False, indent=2)] if as_json else [*lines_of(done)]
    for line in (*lines, *(workflow_commands(done.page) if done.page and not as_json else ())):
        click.echo(line)
    write_outputs(outputs, os.environ)
    append_summary(summary_of(done), os.environ)
