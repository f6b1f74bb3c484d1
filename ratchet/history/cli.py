"""Commands about main over time, and bisect. Loaded by `ratchet.core.cli` when one of them is called."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from ratchet import tools
from ratchet.core.cli.options import (
    Number,
    OutFile,
    common,
    duration,
    harness,
    judging,
    measuring,
    request_of,
    revision,
    verbosity,
)
from ratchet.core.cli.output import print_paths, print_result, progressing, show, shown
from ratchet.core.errors import Exit, UsageError
from ratchet.core.records.files import load, save_text
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.request import REPORT, results_folder
from ratchet.core.units import plural
from ratchet.core.untrusted import clean
from ratchet.history.badge import LABEL, badge_json, badge_svg

_fetch = click.option("--fetch", is_flag=True, help="Bring the runs that CI kept on origin's history branch first.")


@click.command("badge")
@click.argument("report", type=click.Path(path_type=Path), metavar="[REPORT.json]", required=False)
@click.option(
    "--out",
    cls=OutFile,
    type=click.Path(path_type=Path),
    help="The file: NAME.svg, or NAME.json for shields.io (default: badge.svg).",
)
@click.option("--label", default=LABEL, show_default=True, help="The words on its left.")
@common
def badge_command(report: Path | None, out: Path | None, label: str, **options: Any) -> int:
    """Write the verdict of a check as a badge (default: of results/report.json, into that folder)."""
    results = results_folder(request_of((), options), os.environ)
    place = out or results / "badge.svg"
    if place.suffix not in (".svg", ".json"):
        raise UsageError(f"{clean(place)} ends neither in .svg nor in .json.", "Choose one of them.")
    verdict = load(report or results / REPORT, ReportRecord)
    save_text(place, badge_svg(verdict, label) if place.suffix == ".svg" else badge_json(verdict, label))
    print_result({"path": str(place)}, [f"Badge: {clean(place)}"], as_json=options["as_json"])
    return int(Exit.PASS)


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
    from ratchet.history.command import case_histories, open_history  # the other commands have no use for git and an index
    from ratchet.history.report import TREND_RUNS, case_lines, overview_lines, problem_lines

    with progressing(options) as progress:
        opened = open_history(request_of((), options), progress, os.environ, fetch=fetch)
    history, ended = opened.history, opened.ended_mutes
    shown = max(last, TREND_RUNS) if case else TREND_RUNS
    series = case_histories(history, case, None if case and options["as_json"] else shown)
    lines = [line for one in series for line in case_lines(one, last)] if case else overview_lines(series)
    fields = {"series": [one.model_dump(mode="json") for one in series], "problems": history.problems, "ended_mutes": ended}
    print_result(fields, [*lines, *problem_lines(history.problems, ended)], as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("fill")
@click.argument("span", metavar="A..B")
@click.argument("paths", nargs=-1, type=click.UNPROCESSED, metavar="[-- PATH...]")
@click.option("--time", "time_s", type=duration, metavar="DURATION", help="Begin no commit after this long (default: no limit).")
@click.option("--case", "cases", multiple=True, metavar="CASE", help="Only this case, benchmark or pattern; may be repeated.")
@click.option(
    "--benchmarks",
    type=revision,
    metavar="COMMIT",
    help="Use the benchmark files of this commit (default: those of the checkout).",
)
@click.option("--static", is_flag=True, help="Skip commits that are proved the same from what one run wrote down.")
@click.option("--again", is_flag=True, help="Forget what an earlier call has done.")
@click.option("--no-profile", is_flag=True, help="Do not profile what changed.")
@harness
@measuring
@judging
@common
def fill_command(span: str, paths: tuple[str, ...], cases: tuple[str, ...], **options: Any) -> int:
    """Compare each commit after A, up to B, with the one before it, and keep a run of each in the history.

    Follows first parents, the oldest commit first; with PATHs, only commits that change one of these. All run the benchmark
    files of this checkout. Commits with the same files are not measured, a change is measured once more against a fixed commit,
    and a commit that cannot be measured is noted and passed over. The same command again goes on where it ended.
    """
    from ratchet.history.fill import fill  # the other commands measure nothing
    from ratchet.history.fill_records import fill_lines

    chosen = {"paths": paths, **{name: options[name] for name in ("benchmarks", "time_s", "again", "static")}}
    with progressing(options) as progress:
        record, page = fill(span, request_of(cases, options), progress, os.environ, **chosen)
    named = [f"Page: {clean(shown(page))}"] if page.exists() else []
    print_result(record, [*fill_lines(record), *named], as_json=options["as_json"])
    return int(Exit.PASS if record.left or record.before != record.older.commit else Exit.NOT_MEASURED)


@click.command("cost")
@click.option(
    "--price", type=Number(0, min_open=True), metavar="PER_HOUR", help="Show what that costs, by an hour of one device."
)
@_fetch
@verbosity
@common
def cost_command(price: float | None, fetch: bool, **options: Any) -> int:
    """Show the time that checks of main took of their devices: each, and in a month.

    Every device of a check counts. Profiles of what changed, and checks of pull requests, are not in the history.
    """
    from ratchet.history.command import kept_cases, open_history
    from ratchet.history.cost import cost_lines, costs

    with progressing(options) as progress:
        history = open_history(request_of((), options), progress, os.environ, fetch=fetch).history
        kept_cases(history)
        every = costs(history.runs())
    print_result([one.model_dump(mode="json") for one in every], cost_lines(every, price), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("site")
@click.option(
    "--out",
    cls=OutFile,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write (default: results/site).",
)
@click.option("--title", help="The heading of the overview (default: the repository's name).")
@_fetch
@verbosity
@common
def site_command(out: Path | None, title: str | None, fetch: bool, **options: Any) -> int:
    """Write the history of main as pages, for a folder or for GitHub Pages.

    An overview of all cases, a page for each case with its whole series, a page for each run. They need no server: open
    index.html.
    """
    from ratchet.history.report import problem_lines
    from ratchet.history.site import site_of  # its templates take a tenth of a second, which the table does not need

    with progressing(options) as progress:
        written = site_of(request_of((), options), progress, os.environ, out and out.absolute(), title, fetch=fetch)
    fields = {"overview": str(written.overview), "cases": written.cases, "runs": written.runs, "problems": written.problems}
    line = f"{plural(written.cases, 'case')}, {plural(written.runs, 'run')}: {clean(written.overview)}"
    print_result(fields, [line, *problem_lines(written.problems)], as_json=options["as_json"])
    return int(Exit.PASS)


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
    from ratchet.core.command_result import write  # the other commands measure nothing
    from ratchet.history.bisect import bisect
    from ratchet.history.bisection import decision_threshold, search_lines

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
