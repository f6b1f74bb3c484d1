"""`ratchet history --html`: write the pages of the history as files, for a folder or for GitHub Pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ratchet.core.errors import GitError, OutputError, UsageError
from ratchet.core.git import Repository
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request
from ratchet.core.units import plural
from ratchet.history.command import kept_cases, open_history
from ratchet.history.cost import cost_sentence, costs
from ratchet.history.report import problem_lines
from ratchet.history.site_pages import LISTED_RUNS, CaseLine, CaseSummary, Site, SiteRun, summary_of
from ratchet.history.store import History

SITE = "site"
"""The folder within the results folder."""
OVERVIEW = "index.html"
_SCRIPT = "assets/site.js"
"""Every page of ours loads it."""
_PAGE_NAME = re.compile(r".*-[0-9a-f]{10}\.html")


@dataclass(frozen=True)
class WrittenSite:
    """The pages that were written."""

    overview: Path
    cases: int
    runs: int
    problems: tuple[str, ...]
    """Sentences about files of the history that cannot be read."""


def site_of(
    request: Request, progress: Progress, environ: Mapping[str, str], folder: Path | None, title: str | None, *, fetch: bool
) -> WrittenSite:
    """Write the site of a checkout's history; without a folder below the results, without a title with the repository's name.

    Raises what `open_history`, `kept_cases` and `write_site` raise: without runs, earlier pages stay as they are.
    """
    opened = open_history(request, progress, environ, fetch=fetch)
    kept_cases(opened.history)
    try:
        repository = Repository(opened.root).web_address()
    except (GitError, UsageError):  # outside git
        repository = ""
    name = title or "/".join(repository.split("/")[-2:]) or opened.root.name
    return write_site(opened.history, folder or opened.root / opened.settings.results / SITE, name, repository)


def write_site(history: History, folder: Path, title: str, repository: str = "") -> WrittenSite:
    """Write all pages of a history that has runs, the overview last, and delete pages of runs and cases that it no longer has.

    ``repository``: its address on the web; empty: commits are no links. Raises UsageError where the folder has an ``index.html``
    of somebody else's, OutputError where it cannot be written.
    """
    overview = folder / OVERVIEW
    try:
        if overview.exists() and _SCRIPT not in overview.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"{overview} is not a page of ratchet.", "Choose another folder with --out.")
        written = set()
        for path, content in _pages(history, title, repository):
            written.add(path)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for kind in ("case", "run"):
            for page in (folder / kind).glob("*.html"):
                if _PAGE_NAME.fullmatch(page.name) and f"{kind}/{page.name}" not in written:
                    page.unlink()
    except OSError as error:
        raise OutputError(
            f"{error.filename or folder} cannot be written: {error.strerror}.", "Choose another with --out."
        ) from error
    return WrittenSite(overview, len(history.cases()), len(history.names()), history.problems)


def _pages(history: History, title: str, repository: str) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file. One series or one run is in memory at a time, since there may be thousands."""
    names, used = history.names(), cost_sentence(costs(history.runs()))
    site = Site(title, " ".join([f"{plural(len(names), 'run')}.", used, *problem_lines(history.problems)]), repository)
    yield ".nojekyll", b""  # GitHub Pages then takes the files as they are
    style = files("ratchet.core.report") / "templates" / "base.css"
    for asset in (files("ratchet.history") / "assets").iterdir():
        yield f"assets/{asset.name}", (style.read_bytes() if asset.name == "site.css" else b"") + asset.read_bytes()
    summaries: dict[tuple[str, str], CaseSummary] = {}
    indexes: dict[tuple[str, str], float | None] = {}
    for case in history.cases():
        series = history.series(case.name, case.hardware)
        summary = summaries[case.name, case.hardware] = summary_of(series, case.hardware)
        indexes |= {(case.name, point.run): point.index for point in series.points}
        yield summary.path, site.case(summary, series).encode()
    for earlier, name, later in zip(["", *names], names, [*names[1:], ""], strict=False):
        run = history.run(name)
        hardware = run.fingerprint.hardware
        lines = [CaseLine(case, indexes[case.name, name], summaries[case.name, hardware].path) for case in run.cases]
        one = SiteRun(name, run)
        yield one.path, site.run(one, lines, earlier, later).encode()
    latest = [SiteRun(name, history.run(name)) for name in names[: -LISTED_RUNS - 1 : -1]]
    yield OVERVIEW, site.overview(summaries.values(), latest).encode()
