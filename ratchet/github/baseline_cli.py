"""The command ``ratchet ci push``: options and output. The work is done by `ratchet.github.baseline_push`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.common.baseline_text import forward_fields, forward_lines, forward_outputs, forward_summary
from ratchet.core.actions import append_summary
from ratchet.core.cli.options import common, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.errors import Exit
from ratchet.github.baseline_push import push_baseline
from ratchet.github.step import write_outputs


@click.command("push")
@click.argument("artifacts", type=click.Path(path_type=Path), metavar="ARTIFACT...", nargs=-1, required=True)
@click.option(
    "--mode",
    type=click.Choice(["push", "pull-request", "branch"]),
    help="How to change the remote (default: push; a protected branch gets a pull request).",
)
@click.option("--onto", metavar="BRANCH", help="The branch that was measured (default: what is checked out).")
@click.option("--remote", default="origin", help="The remote to push to.")
@common
def push_command(artifacts: tuple[Path, ...], mode: Any, onto: str | None, remote: str, **options: Any) -> int:
    """Enter runs of main into the baseline file of the remote, by a commit of that file alone.

    ARTIFACT is a folder, an archive or a run.json, and is read within limits. In a workflow, GitHub must say that the run is a
    push to the default branch or a dispatch on it; other runs exit with 2.

    Whatever was pushed meanwhile stays: the steps are applied again on top of it, never by force. With GITHUB_TOKEN, what was
    accepted in the pull requests of these commits is recorded too. Exits with 3 where nothing could be recorded.
    """
    client = None
    if os.environ.get("GITHUB_TOKEN"):
        from ratchet.github.client import GitHub  # PyGithub is an extra

        client = GitHub.from_environ(os.environ)
    way = {"remote": remote, "mode": mode, "onto": onto}
    done = push_baseline(artifacts, client, request_of((), options), os.environ, **way)
    print_result(forward_fields(done), forward_lines(done), as_json=options["as_json"])
    write_outputs(forward_outputs(done), os.environ)
    append_summary(forward_summary(done), os.environ)
    return int(Exit.PASS)
