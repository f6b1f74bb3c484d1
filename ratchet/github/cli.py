"""Commands of jobs that may write on GitHub: publish, recheck, command and notify. They never run the measured code.

Loaded by `ratchet.core.cli` when one of them is called. They read GitHub's environment variables and talk to GitHub with
GITHUB_TOKEN; publish also writes the outputs and the summary of its workflow step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.core.actions import append_summary
from ratchet.core.cli.options import as_json, common, judging, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.errors import Exit
from ratchet.core.untrusted import log_line
from ratchet.github.check_run import workflow_commands
from ratchet.github.client import GitHub
from ratchet.github.command import answer
from ratchet.github.event_file import event_of
from ratchet.github.notify import notify, send_to_webhook, tell_culprit
from ratchet.github.publish import PublishRequest, lines_of, outputs_of, publish, recheck, summary_of, write_published
from ratchet.github.step import write_outputs

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
@as_json
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    help="Folder with the artifacts of several GPU models, if the base branch's settings name them.",
)
@click.option("--static", type=click.Path(path_type=Path), help="The artifact of the job without a GPU; it may be missing.")
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
    static: Path | None,
    **options: Any,
) -> int:
    """Judge what a GPU job measured again, and publish it as a comment and a check run.

    ARTIFACT is its folder, archive or run.json; it may be missing. Baseline and thresholds are the base branch's. Exits with 0
    when it was published, whatever the verdict; with 2 for a token without rights, with 3 where it could not be published.
    """
    done = publish(
        PublishRequest(artifact, run_id, comment, report_id, options, static, models), GitHub.from_environ(os.environ), os.environ
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


@click.command("recheck")
@click.argument("numbers", type=click.IntRange(min=1), metavar="PULL...", nargs=-1)
@_report_id
def recheck_command(numbers: tuple[int, ...], report_id: str) -> int:
    """Take back the verdicts of open pull requests that have another base by now.

    PULL are their numbers (default: all that are open). Where the samples are still right, the run is published again; where not,
    the check asks for a new run. Exits with 0 whatever it finds.
    """
    lines = list(recheck(numbers, report_id, GitHub.from_environ(os.environ), os.environ))
    print_result(None, [log_line(line) for line in lines or ["Every verdict is about the present base."]], as_json=False)
    return int(Exit.PASS)


@click.command("notify")
@click.argument("artifacts", type=click.Path(path_type=Path), metavar="ARTIFACT...", nargs=-1, required=True)
@click.option("--issues", is_flag=True, help="Open, renew and close one issue for each cause.")
@click.option(
    "--webhook", type=click.Choice(["slack", "json"]), help="Send news to the address in RATCHET_WEBHOOK_URL, in this form."
)
@click.option("--bisect", is_flag=True, help="Start a search for the commit of each issue that is opened.")
@common
def notify_command(artifacts: tuple[Path, ...], issues: bool, webhook: Any, bisect: bool, **options: Any) -> int:
    """Tell people of a regression of main that two runs have shown, and of its end.

    ARTIFACTS are those of the two runs that the job of the baseline has: it works in a job of the default branch alone. Exits
    with 0 whatever it tells them, and with 2 or 3 where a message could not be sent.
    """
    if bisect and not issues:
        raise click.UsageError("--bisect needs --issues: what it finds is written there.")
    notified = notify(
        artifacts,
        GitHub.from_environ(os.environ),
        send_to_webhook,
        request_of((), options),
        os.environ,
        issues=issues,
        webhook=webhook,
        bisect=bisect,
    )
    headline = notified.notice.headline if notified.notice else "Nothing is confirmed to be slower, and nothing was fixed."
    print_result(notified.notice or {}, map(log_line, (headline, *notified.done)), as_json=options["as_json"])
    if notified.failed:
        raise notified.failed
    return int(Exit.PASS)


@click.command("culprit")
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option("--case", required=True)
@click.option("--good", required=True, help="The last commit known to be faster, with all its digits.")
@click.option("--bad", required=True, help="The commit that is slower, likewise.")
@click.option("--issue", type=click.IntRange(min=1), required=True, help="Number of the issue of the regression.")
@common
def culprit_command(artifact: Path, case: str, good: str, bad: str, issue: int, **options: Any) -> int:
    """Write the commit that a search has found into the issue of a regression.

    ARTIFACT is that of the job that ran `ratchet bisect`. Exits with 0 also where it names no commit: the issue says why.
    """
    search: Any = {"case": case, "good": good, "bad": bad, "number": issue}
    said = tell_culprit(artifact, GitHub.from_environ(os.environ), request_of((), options), os.environ, **search)
    print_result(None, [log_line(said)], as_json=False)
    return int(Exit.PASS)
