"""`ratchet publish`: what a GPU job measured, judged again, as the sticky comment and the check run of a commit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.commands.github.event import Subject, subject_of
from ratchet.commands.github.judge_again import Material, blank_page, page_of
from ratchet.commands.request import MARKDOWN, REPORT
from ratchet.errors import Exit, RatchetError
from ratchet.forge.actions import LARGEST_SUMMARY
from ratchet.records.files import save, save_text
from ratchet.records.forge import Comment
from ratchet.records.verdict import Outcome, ReportRecord
from ratchet.report.check_run import check_output
from ratchet.report.comment import CommentPage, marker, render_comment, run_id_of
from ratchet.report.markdown import render_markdown
from ratchet.untrusted import log_line, markdown

if TYPE_CHECKING:
    from ratchet.forge.github import GitHub


CHECK = "ratchet"
_UNFINISHED = "Publishing ended before there was a verdict: the log of the job that publishes says why."


@dataclass(frozen=True)
class PublishRequest:
    """What the command line asks for."""

    place: Path
    """The artifact: a folder, a file or an archive; it may be missing."""
    run_id: int | None = None
    comment: bool = True
    report_id: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings given on the command line; None means not given."""


@dataclass(frozen=True)
class Published:
    """What was published, or why nothing was."""

    subject: Subject
    page: CommentPage | None = None
    comment_url: str = ""
    check_url: str = ""
    notes: tuple[str, ...] = ()
    failed: RatchetError | None = None
    """What went wrong on our side; the check run is complete all the same."""

    @property
    def report(self) -> ReportRecord | None:
        return self.page.report if self.page else None

    @property
    def verdict(self) -> str:
        """``pass``, ``regression`` or ``not measured``; without a verdict ``none``, ``stale``, ``closed`` or ``skipped``."""
        return self.subject.ended or (self.report.verdict if self.report else "none")

    def names(self, *outcomes: Outcome) -> list[str]:
        """The cases with one of these outcomes."""
        return [case.name for case in self.report.cases if case.outcome in outcomes] if self.report else []

    def exit_code(self, fail_on: str) -> Exit:
        """A verdict that was published is a success, whatever it says, unless the job is to fail with it."""
        if fail_on == "never" or self.subject.ended:
            return Exit.PASS
        return Exit(self.report.exit_code) if self.report else Exit.NOT_MEASURED


def publish(asked: PublishRequest, github: GitHub, environ: Mapping[str, str]) -> Published:
    """Judge an artifact again and tell the pull request and the commit; `Published.failed` says what could not be told.

    Raises UsageError where nothing says what to publish, ForgeError where GitHub did not even let a check run be opened.
    """
    marker(asked.report_id)
    subject = subject_of(asked.run_id, github, environ)
    if subject.ended:
        return Published(subject)
    page = replace(blank_page(subject, github, asked.report_id, _UNFINISHED), log_url=_log(github, environ))
    with _told(Published(subject, page), asked, github, environ) as box:
        judged = _judged(box.done, asked, github, environ)
        _try_out(judged)
        box.done = judged
        box.done = _commented(judged, asked, github)
    return box.done


@dataclass
class _Box:
    """How far it has come: what is told at the end, however that comes."""

    done: Published


@contextmanager
def _told(done: Published, asked: PublishRequest, github: GitHub, environ: Mapping[str, str]) -> Iterator[_Box]:
    """The check run, completed however it ends. An end that nobody planned, by a defect of ours or a cancelled job, is told in
    the comment as well: after the check run, since there may be little time left.
    """
    run = done.subject.run
    name = CHECK if asked.report_id == "default" else f"{CHECK} ({asked.report_id})"
    check = github.open_check(name, run.head_sha, run.url, f"{run.id}.{run.attempt}")
    begun = replace(done, check_url=f"{_address(github, environ)}/runs/{check}")
    box = _Box(begun)
    try:
        yield box
    finally:
        if box.done.page:
            github.complete_check(check, *check_output(box.done.page))
        if box.done is begun:
            _commented(begun, asked, github)


def _try_out(done: Published) -> None:
    """Write the page once and throw it away: one that cannot be written must not be what the end has to tell."""
    if done.page:
        render_comment(done.page)
        check_output(done.page)


def _address(github: GitHub, environ: Mapping[str, str]) -> str:
    return f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{github.repository}"


def _log(github: GitHub, environ: Mapping[str, str]) -> str | None:
    """Of this job, where it is one."""
    run_id = environ.get("GITHUB_RUN_ID")
    return f"{_address(github, environ)}/actions/runs/{run_id}" if run_id else None


def _judged(done: Published, asked: PublishRequest, github: GitHub, environ: Mapping[str, str]) -> Published:
    """The same with its page; where our own side fails, with a page that says so."""
    subject = done.subject
    try:
        comments = github.comments(subject.pull.number) if subject.pull else ()
        material = Material(subject, _there(asked.place), comments, asked.report_id, asked.options)
        return replace(done, page=page_of(material, github, environ))
    except RatchetError as error:
        return replace(done, page=blank_page(subject, github, asked.report_id, error.message), failed=error)


def _commented(done: Published, asked: PublishRequest, github: GitHub) -> Published:
    """The same with the comment, written once more if it is ours; not where a later run has reported, or nobody reads it."""
    pull, page = done.subject.pull, done.page
    if pull is None or page is None or not asked.comment:
        return done
    try:
        now = github.pull(pull.number)
        if now.state != "open":
            return replace(done, notes=(*done.notes, f"#{pull.number} was closed meanwhile: no comment."))
        later = _later(github.comments(pull.number), page, github.bot)
        if later:
            return replace(done, notes=(*done.notes, f"The later run {later} has reported already: its comment stays."))
        if now.head_sha != page.head_sha:
            page = replace(page, stale_for=now.head_sha)
        comment = github.upsert_comment(pull.number, marker(page.report_id), render_comment(page))
        return replace(done, page=page, comment_url=comment.url)
    except RatchetError as error:
        return replace(done, page=page, failed=done.failed or error)


def _later(comments: tuple[Comment, ...], page: CommentPage, bot: str) -> int | None:
    """The run of our comment, where it is a later one than this."""
    ours = [each.body for each in comments if each.author == bot and each.body.startswith(marker(page.report_id))]
    runs = [run_id_of(body) or 0 for body in ours[-1:]]
    return next((run for run in runs if run > page.run_id), None)


def _there(place: Path) -> Path | None:
    """The artifact, if anything came of it: the step that fetches it leaves an empty folder otherwise, or none.

    Told not to unpack it, that step leaves the archive alone in the folder.
    """
    if not place.is_dir():
        return place if place.exists() or place.is_symlink() else None
    inside = list(place.iterdir())
    alone = len(inside) == 1 and inside[0].suffix == ".zip"
    return inside[0] if alone else place if inside else None


# What `ratchet publish` leaves behind for people and for the steps that follow.


_WORDS = {"pass": "passed", "regression": "regressed", "not measured": "unmeasured", "none": "unmeasured"}


def write_published(done: Published, environ: Mapping[str, str]) -> Path | None:
    """The verdict and the report as files of this job; the path of the Markdown, None where there is no verdict."""
    if done.report is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="ratchet-report-", dir=environ.get("RUNNER_TEMP")))
    save(folder / REPORT, done.report)
    save_text(folder / MARKDOWN, render_markdown(done.report))
    return folder / MARKDOWN


def outputs_of(done: Published, report_path: Path | None) -> dict[str, str]:
    """The step's outputs. ``regressions`` leaves out what was accepted."""
    accepted = {each.case for each in done.page.acceptances} if done.page else set()
    red = [name for name in done.names(Outcome.REGRESSED, Outcome.FAILED) if name not in accepted]
    return {
        "verdict": _WORDS.get(done.verdict, done.verdict),
        "regressions": str(len(red)),
        "improvements": str(len(done.names(Outcome.IMPROVED))),
        "report-path": str(report_path or ""),
        "comment-url": done.comment_url,
        "check-url": done.check_url,
    }


def lines_of(done: Published) -> Iterator[str]:
    """What the log says: one line of text each, and no command to the runner."""
    if done.subject.ended:
        yield log_line(done.subject.why)
    elif done.page:
        yield log_line(done.report.headline if done.report else f"No verdict: {done.page.problem}")
    yield from (log_line(note) for note in done.notes)
    yield from (f"{label} {url}" for label, url in (("Check run:", done.check_url), ("Comment:", done.comment_url)) if url)


def summary_of(done: Published) -> str:
    """The step's summary: the comment, with room for more detail, or the sentence why there is none."""
    return render_comment(done.page, LARGEST_SUMMARY) if done.page else f"{markdown(done.subject.why)}\n"
