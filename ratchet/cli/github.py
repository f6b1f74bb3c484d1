"""Commands of jobs that may write on GitHub: publish, command. They never run the measured code.

Loaded by `ratchet.cli` when one of them is called. They read GitHub's environment variables and talk to GitHub with GITHUB_TOKEN;
publish also writes the outputs and the summary of its workflow step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import judging
from ratchet.cli.output import print_result
from ratchet.commands.github.command import answer
from ratchet.commands.github.event import event_of
from ratchet.commands.github.publish import PublishRequest, lines_of, outputs_of, publish, summary_of, write_published
from ratchet.errors import Exit
from ratchet.forge.actions import append_summary, write_outputs
from ratchet.forge.github import GitHub
from ratchet.report.check_run import workflow_commands
from ratchet.untrusted import log_line

_report_id = click.option("--id", "report_id", default="default", help="Name of the report, if a pull request has several.")


@click.command("publish")
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option(
    "--run-id",
    type=click.IntRange(min=1),
    envvar="RUN_ID",
    help="The workflow run that measured (default: the one that the event names).",
)
@click.option(
    "--comment/--no-comment", default=True, envvar="COMMENT", help="Write a comment in the pull request, or only the check run."
)
@click.option(
    "--fail-on", type=click.Choice(["never", "regression"]), default="never", help="Whether a regression fails this job."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outputs as JSON instead of text.")
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    help="Folder with the artifacts of several GPU models, if the base branch's settings name them.",
)
@_report_id
@judging
def publish_command(
    artifact: Path,
    run_id: int | None,
    comment: bool,
    fail_on: str,
    report_id: str,
    as_json: bool,
    models: Path | None,
    **options: Any,
) -> int:
    """Judge what a GPU job measured again, and publish it as a comment and a check run.

    ARTIFACT is its folder, archive or run.json; it may be missing. Baseline and thresholds are the base branch's. Exits with 0
    when it was published, whatever the verdict; with 2 for a token without rights, with 3 where it could not be published.
    """
    done = publish(
        PublishRequest(artifact, run_id, comment, report_id, options, models), GitHub.from_environ(os.environ), os.environ
    )
    outputs = outputs_of(done, write_published(done, os.environ))
    annotations = workflow_commands(done.page) if done.page else ()
    print_result(outputs, (*lines_of(done), *annotations), as_json=as_json)
    write_outputs(outputs, os.environ)
    append_summary(summary_of(done), os.environ)
    if done.failed:
        raise done.failed
    return int(done.exit_code(fail_on))


@click.command("command")
@_report_id
def answer_command(report_id: str) -> int:
    """Answer `/ratchet accept CASE… reason` and `/ratchet profile CASE…` in a pull request, or its label.

    Exits with 0 also where it refuses: the reason stands in the pull request.
    """
    reply = answer(event_of(os.environ), GitHub.from_environ(os.environ), os.environ, report_id)
    print_result(None, [log_line(reply.sentence)], as_json=False)
    return int(Exit.PASS)
