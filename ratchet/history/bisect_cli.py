"""The command bisect. Loaded by `ratchet.core.cli` when it is called."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from ratchet import tools
from ratchet.core.cli.options import common, measuring, request_of
from ratchet.core.cli.output import print_paths, print_result, progressing, show, shown
from ratchet.core.command_result import write
from ratchet.core.errors import Exit
from ratchet.history.bisect import bisect
from ratchet.history.bisection import decision_threshold
from ratchet.history.bisection_report import search_lines


@click.command("bisect")
@click.argument("case")
@click.argument("good", required=False)
@click.argument("bad", default="HEAD")
@click.option("--env", metavar="PACKAGE==A..B", help="Search the released versions of a package instead, in this checkout.")
@click.option("--again", is_flag=True, help="Forget what an earlier run of this search has measured.")
@click.option("--gives-way", is_flag=True, help="Let any other run have the device, and go on afterwards.")
@click.option("--no-profile", is_flag=True, help="Do not profile the commit and its parent.")
@measuring
@common
def bisect_command(case: str, good: str | None, bad: str, **options: Any) -> int:
    """Search the commits after GOOD, up to BAD, for the one that changed CASE.

    Each commit that is tried runs the benchmark files of this checkout, and is compared with GOOD in pairs. Commits that do not
    build are skipped, those with the same code are not timed. A search that was interrupted goes on when it is called again.

    Exits with 1 where a commit made CASE slower, with 0 where none did, with 3 where that could not be measured.
    """
    package, good, bad = _ends(good, bad, options.pop("env"))
    with progressing(options) as progress:
        request = request_of((case,), options)
        how = {"again": options["again"], "package": package, "gives_way": options["gives_way"]}
        search, check = bisect(good, bad, request, progress, os.environ, **how)
    paths = write(check, os.environ) if check else []
    if check and not options["as_json"]:
        report = check.report
        show(report, as_json=False)
        words, folder = tools.part("profile_text"), shown(check.results)
        lines = [line for profile in report.profiles for line in words.profile_lines(profile, folder)]
        print_result(None, lines, as_json=False)
        print_paths(paths, quiet=False)
    print_result(search, search_lines(search), as_json=options["as_json"])
    if search.suspects:
        return int(Exit.REGRESSION if decision_threshold(search) > 0 else Exit.PASS)
    return int(Exit.PASS if search.looked_at[-1].verdict == "good" else Exit.NOT_MEASURED)


def _ends(good: str | None, bad: str, env: str | None) -> tuple[str, str, str]:
    """Return the package that is searched, if any, and both ends of the range."""
    if env is None:
        if good is None:
            raise click.UsageError("Name the commit GOOD, or a package with --env.")
        return "", good, bad
    found = re.fullmatch(r"([\w.-]+)==([\w.+!]+?)\.\.([\w.+!]+)", env)
    if not found or good is not None:
        raise click.UsageError(f"--env takes PACKAGE==A..B, such as triton==3.5.0..3.7.1, and no commits; not {env!r}.")
    return found[1], found[2], found[3]
