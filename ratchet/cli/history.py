"""Commands about main over time: bisect, history and site. Loaded by `ratchet.cli` when one of them is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import (
    common,
    measuring,
    request_of,
    verbosity,
)
from ratchet.cli.output import print_paths, print_result, progressing, show, shown
from ratchet.commands.bisect import bisect
from ratchet.commands.output import write
from ratchet.errors import Exit
from ratchet.judge.bisection import half_of
from ratchet.report.bisection import search_lines
from ratchet.report.profile import profile_lines
from ratchet.units import plural
from ratchet.untrusted import clean

_fetch = click.option("--fetch", is_flag=True, help="Bring the runs that CI kept on origin's history branch first.")


@click.command("bisect")
@click.argument("case")
@click.argument("good")
@click.argument("bad", default="HEAD")
@click.option("--again", is_flag=True, help="Forget what an earlier run of this search has measured.")
@click.option("--no-profile", is_flag=True, help="Do not profile the commit and its parent.")
@measuring
@common
def bisect_command(case: str, good: str, bad: str, **options: Any) -> int:
    """Search the commits after GOOD, up to BAD, for the one that changed CASE.

    Each commit that is tried runs the benchmark files of this checkout, and is compared with GOOD in pairs. Commits that do not
    build are skipped, those with the same code are not timed. A search that was interrupted goes on when it is called again.

    Exits with 1 where a commit made CASE slower, with 0 where none did, with 3 where that could not be measured.
    """
    with progressing(options) as progress:
        done = bisect(good, bad, request_of((case,), options), progress, os.environ, again=options["again"])
    paths = write(done.check, os.environ) if done.check else []
    if done.check and not options["as_json"]:
        report = done.check.report
        show(report, as_json=False)
        lines = [line for profile in report.profiles for line in profile_lines(profile, shown(done.check.results))]
        print_result(None, lines, as_json=False)
        print_paths(paths, quiet=False)
    print_result(done.search, search_lines(done.search), as_json=options["as_json"])
    if done.search.suspects:
        return int(Exit.REGRESSION if half_of(done.search) > 0 else Exit.PASS)
    return int(Exit.PASS if done.search.looked_at[-1].verdict == "good" else Exit.NOT_MEASURED)


@click.command("history")
@click.argument("case", required=False)
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many runs of CASE to show.")
@_fetch
@verbosity
@common
def history_command(case: str | None, last: int, fetch: bool, **options: Any) -> int:
    """Show how each case on main changed over time.

    Without CASE, a line for each case: its latest time, how far it has moved from its anchor, and the trend. With a name or a
    pattern, a line for each of the last runs. The branch of the history is read as it was last fetched, unless
    --fetch says otherwise.
    """
    from ratchet.commands.history import case_histories, open_history  # the other commands have no use for git and an index
    from ratchet.report.history import TREND_RUNS, case_lines, overview_lines, problem_lines

    with progressing(options) as progress:
        opened = open_history(request_of((), options), progress, os.environ, fetch=fetch)
    history, ended = opened.history, opened.ended_mutes
    shown = max(last, TREND_RUNS) if case else TREND_RUNS
    series = case_histories(history, case, None if case and options["as_json"] else shown)
    lines = [line for one in series for line in case_lines(one, last)] if case else overview_lines(series)
    fields = {"series": [one.model_dump(mode="json") for one in series], "problems": history.problems, "ended_mutes": ended}
    print_result(fields, [*lines, *problem_lines(history.problems, ended)], as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("site")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="The folder to write (default: results/site).")
@click.option("--title", help="The heading of the overview (default: the repository's name).")
@_fetch
@verbosity
@common
def site_command(out: Path | None, title: str | None, fetch: bool, **options: Any) -> int:
    """Write the history of main as pages, for a folder or for GitHub Pages.

    An overview of all cases, a page for each case with its whole series, a page for each run. They need no server: open
    index.html.
    """
    from ratchet.commands.site import site_of  # its templates take a tenth of a second, which the table does not need
    from ratchet.report.history import problem_lines

    with progressing(options) as progress:
        written = site_of(request_of((), options), progress, os.environ, out and out.absolute(), title, fetch=fetch)
    fields = {"overview": str(written.overview), "cases": written.cases, "runs": written.runs, "problems": written.problems}
    line = f"{plural(written.cases, 'case')}, {plural(written.runs, 'run')}: {clean(written.overview)}"
    print_result(fields, [line, *problem_lines(written.problems)], as_json=options["as_json"])
    return int(Exit.PASS)
