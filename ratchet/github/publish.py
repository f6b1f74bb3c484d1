"""`ratchet ci publish`: judge again what a GPU job measured, and publish it as a comment and a check run.

The trusted job calls this. It reads the artifact as hostile data and never runs code of the pull request. It writes a comment
and a check run through GitHub's API, and files in the runner's temporary folder. Where the base branch's settings name
``models``, one page joins those of all GPU models.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ratchet import tools
from ratchet.core import untrusted
from ratchet.core.actions import LARGEST_SUMMARY
from ratchet.core.errors import Exit, RatchetError
from ratchet.core.records.files import save, save_text
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.report.markdown import render_markdown
from ratchet.core.request import MARKDOWN, REPORT
from ratchet.core.untrusted import log_line, markdown
from ratchet.github.check_run import check_output
from ratchet.github.client import GitHub
from ratchet.github.command import REPORT_WORKFLOW
from ratchet.github.comment import CommentPage, marker, render_comment, run_id_of, sha_of
from ratchet.github.errors import LockedError
from ratchet.github.event_file import Subject, subject_of
from ratchet.github.judge_again import ARTIFACT, PageSources, blank_page, page_of, rules_at
from ratchet.github.provenance import CheckedBase, known_checks, measured_on
from ratchet.github.records import CheckOutput, Comment, Pull
from ratchet.github.state import PublishedState

CHECK = "ratchet"
MOST_COPIES = 20
"""Comments that look like our report and are not the one that was written: they must not say something else beside it."""
_UNFINISHED = "Publishing ended before there was a verdict: the log of the job that publishes says why."


@dataclass(frozen=True)
class PublishRequest:
    """The command line of `ratchet ci publish`."""

    place: Path
    """The artifact: a folder, a file or an archive; it may be missing."""
    run_id: int | None = None
    comment: bool = True
    report_id: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings given on the command line; None means not given."""
    static: Path | None = None
    """The artifact of the job without a GPU; it may be missing."""
    models: Path | None = None
    """A folder with the artifact of each GPU model, in a folder or archive of its name, where the settings name several."""


@dataclass(frozen=True)
class Publication:
    """The result: what was published, or why nothing was."""

    subject: Subject
    page: CommentPage | None = None
    comment_url: str = ""
    check_url: str = ""
    notes: tuple[str, ...] = ()
    failed: RatchetError | None = None
    """An error on our side; the check run is completed all the same."""

    @property
    def report(self) -> ReportRecord | None:
        return self.page.report if self.page else None

    @property
    def verdict(self) -> str:
        """``pass``, ``regression`` or ``not measured``; without one ``none`` or how the subject ended."""
        return self.subject.ended or (self.report.verdict if self.report else "none")

    def names(self, *outcomes: Outcome) -> list[str]:
        """Return the cases with one of these outcomes, on any model."""
        pages = (list(self.page.models.values()) or [self.page]) if self.page else []
        reports = [page.report for page in pages if page.report]
        return list(dict.fromkeys(case.name for report in reports for case in report.cases if case.outcome in outcomes))

    def exit_code(self, fail_on: str) -> Exit:
        """Return 0 for anything that was published, unless the job is to fail on a regression."""
        if fail_on == "never" or self.subject.ended:
            return Exit.PASS
        return Exit(self.report.exit_code) if self.report else Exit.NOT_MEASURED


def publish(request: PublishRequest, github: GitHub, environ: Mapping[str, str]) -> Publication:
    """Judge an artifact again and publish the verdict; `Publication.failed` says what could not be published.

    However this ends, the check run is completed. After a defect of ours, or in a cancelled job, both say that there is no
    verdict. Raises UsageError where nothing says what to publish, ForgeError where not even a check run could be opened.
    """
    marker(request.report_id)  # refuses an id that cannot be found again
    subject = subject_of(request.run_id, github, environ)
    if subject.ended:
        return Publication(subject)
    run = subject.run
    server = f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{github.repository}"
    log_url = f"{server}/actions/runs/{environ['GITHUB_RUN_ID']}" if environ.get("GITHUB_RUN_ID") else None
    name = check_name(request.report_id)
    about = CheckedBase(run.id, run.attempt, subject.merge_base, subject.base_ref if subject.pull else "")
    # GitHub shows the check run that was made last, so an older run must not make one after a newer.
    checks = known_checks(github.own_checks(name, run.head_sha), run.head_sha, github, environ)
    newest = max(((one.run, one.attempt) for _, one in checks), default=(0, 0))
    if newest > (run.id, run.attempt):
        of = f"attempt {run.attempt} of run {run.id} changes nothing"
        why = f"Attempt {newest[1]} of run {newest[0]} has reported on {run.head_sha[:10]} already: {of}."
        return Publication(replace(subject, ended="older", why=why))
    has_verdict = about in (one for check, one in checks if check.completed)
    if has_verdict and not any(map(_find_artifact, filter(None, (request.place, request.static, request.models)))):
        return _keep(subject, request, github)
    check = github.open_check(name, run.head_sha, run.url, str(about))
    page = replace(blank_page(subject, github, request.report_id, _UNFINISHED), log_url=log_url)
    unfinished = Publication(subject, page, check_url=f"{server}/runs/{check}")
    done = unfinished
    try:
        judged = _on_its_base(_judge(unfinished, request, github, environ), request, github)
        if judged.page:
            # Rendered once before it counts: `finally` must not meet a page that cannot be rendered.
            render_comment(judged.page)
            check_output(judged.page)
        done = judged
        done = _comment(judged, request, github, environ)
    finally:
        if done.page:
            github.complete_check(check, *check_output(done.page))
        if done is unfinished:  # the check run first, since a cancelled job has little time left
            _comment(unfinished, request, github, environ)
    return done


def check_name(report_id: str) -> str:
    """Return the name of the check run of a report."""
    return CHECK if report_id == "default" else f"{CHECK} ({report_id})"


def _on_its_base(done: Publication, request: PublishRequest, github: GitHub) -> Publication:
    """Take the verdict back if the pull request has another base by now: it was about that of before."""
    subject = done.subject
    if subject.pull is None:
        return done
    now = github.pull(subject.pull.number).base_ref
    if now == subject.base_ref:
        return done
    moved = f"The base changed from {subject.base_ref} to {now} while this was judged: start Ratchet report for run"
    return replace(done, page=blank_page(subject, github, request.report_id, f"{moved} {subject.run.id} again."))


def _keep(subject: Subject, request: PublishRequest, github: GitHub) -> Publication:
    """Leave the verdict that this run has already, since its measurements are gone; say so in the pull request, once."""
    run, pull = subject.run, subject.pull
    gone = "could not be fetched this time" if github.has_artifact(run.id, ARTIFACT) else "have expired, or there were none"
    why = f"The measurements of run {run.id} {gone}, so they cannot be judged again: the verdict stays as it is."
    if pull and request.comment:
        first = f"<!-- ratchet:reply:gone:{run.id}.{run.attempt} -->"
        with contextlib.suppress(LockedError):  # the log says it too
            github.reply(pull.number, f"{first}\n{why} Start that run again to measure once more.", first)
    return Publication(replace(subject, ended="kept", why=why))


def _judge(done: Publication, request: PublishRequest, github: GitHub, environ: Mapping[str, str]) -> Publication:
    """Return ``done`` with the page of the verdict; where our own side fails, with a page that says so."""
    subject = done.subject
    try:
        comments = github.comments(subject.pull.number) if subject.pull else ()
        rules = rules_at(github, subject.base_ref, environ, request.options)
        static = _find_artifact(request.static) if request.static else None
        material = PageSources(subject, _find_artifact(request.place), comments, request.report_id, static)
        if not rules.settings.models:
            return replace(done, page=page_of(material, rules, github, environ))
        pages = {}
        for model in rules.settings.models:
            of_model = replace(material, model=model, static=None)
            places = [request.models / f"{of_model.artifact}{end}" for end in ("", ".zip")] if request.models else []
            place = next(filter(None, map(_find_artifact, places)), None)
            pages[model] = page_of(replace(of_model, place=place), rules, github, environ)
        return replace(done, page=joined(pages))
    except RatchetError as error:
        return replace(done, page=blank_page(subject, github, request.report_id, error.message), failed=error)


def _comment(done: Publication, request: PublishRequest, github: GitHub, environ: Mapping[str, str]) -> Publication:
    """Write or renew our comment, unless the pull request is closed, or the comment is of a later run."""
    pull, page = done.subject.pull, done.page
    if pull is None or page is None or not request.comment:
        return done
    try:
        now = github.pull(pull.number)
        if now.state != "open":
            return replace(done, notes=(*done.notes, f"#{pull.number} was closed meanwhile: no comment."))
        first = marker(page.run.report_id)
        ours = [one for one in github.comments(pull.number) if one.author == github.bot and one.body.startswith(first)]
        later = _later(ours, page.run.id, now.head_sha, github, environ)
        if later:
            return replace(done, notes=(*done.notes, f"The later run {later} has reported already: its comment stays."))
        if now.head_sha != page.run.head_sha:
            page = replace(page, run=replace(page.run, stale_for=now.head_sha))
        comment = github.upsert_comment(pull.number, first, render_comment(page))
        for other in [one for one in ours if one.id != comment.id][-MOST_COPIES:]:
            github.edit_comment(other.id, f"This is no report of ratchet: [its report]({comment.url}) is another comment.")
        return replace(done, page=page, comment_url=comment.url)
    except LockedError:
        return replace(done, page=page, notes=(*done.notes, f"The conversation of #{pull.number} is locked: no comment."))
    except RatchetError as error:
        return replace(done, page=page, failed=done.failed or error)


def _later(ours: Sequence[Comment], run_id: int, head: str, github: GitHub, environ: Mapping[str, str]) -> int | None:
    """Return the later run on the present head that a comment tells of, if GitHub knows that run as one of the workflow."""
    told = {run_id_of(one.body): sha_of(one.body) for one in ours}
    later = [number for number, sha in told.items() if number and number > run_id and sha == head]
    known = {run.id for run in measured_on(head, github, environ)} if later else set()
    return max((number for number in later if number in known), default=None)


def _find_artifact(place: Path) -> Path | None:
    """Return the artifact; None where the step that downloads it left an empty folder or nothing."""
    if place.is_dir() and not any(place.iterdir()):
        return None
    return place if place.exists() or place.is_symlink() else None


# The result of the job: files, outputs for the next steps, and lines for its log.

_WORDS = {"pass": "passed", "regression": "regressed", "not measured": "unmeasured", "none": "unmeasured"}


def write_published(done: Publication, environ: Mapping[str, str]) -> Path | None:
    """Write the verdict and the report as files of this job; return the Markdown's path, None without a verdict."""
    if done.report is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="ratchet-report-", dir=environ.get("RUNNER_TEMP")))
    save(folder / REPORT, done.report)
    save_text(folder / MARKDOWN, render_markdown(done.report))
    return folder / MARKDOWN


def outputs_of(done: Publication, report_path: Path | None) -> dict[str, str]:
    """Return the step's outputs. ``regressions`` leaves out accepted ones."""
    pages = (done.page, *done.page.models.values()) if done.page else ()
    accepted = {acceptance.case for page in pages for acceptance in page.acceptances}
    red = [name for name in done.names(Outcome.REGRESSED, Outcome.FAILED) if name not in accepted]
    return {
        "verdict": _WORDS.get(done.verdict, done.verdict),
        "regressions": str(len(red)),
        "improvements": str(len(done.names(Outcome.IMPROVED))),
        "report-path": str(report_path or ""),
        "comment-url": done.comment_url,
        "check-url": done.check_url,
    }


def lines_of(done: Publication) -> Iterator[str]:
    """Yield the lines of the log, none of which the runner takes for a command."""
    if done.subject.ended:
        yield log_line(done.subject.why)
    elif done.page:
        yield log_line(tools.part("profile_text").headline(done.report) if done.report else f"No verdict: {done.page.problem}")
    yield from (log_line(note) for note in done.notes)
    yield from (f"{label} {url}" for label, url in (("Check run:", done.check_url), ("Comment:", done.comment_url)) if url)


def summary_of(done: Publication) -> str:
    """Return the step's summary: the comment, with room for more detail, or the sentence why there is none."""
    return render_comment(done.page, LARGEST_SUMMARY) if done.page else f"{markdown(done.subject.why)}\n"


# Several GPU models: a page for each, and one page of them all, which is that of the worst.


def joined(pages: Mapping[str, CommentPage]) -> CommentPage:
    """Return the page of the model that ended worst, which names it, with all models in it.

    A model without results is no pass; a regression on another model comes first, since it says more.
    """
    apart = {model: _of_own_machine(model, pages) for model in pages}
    worst = min(apart, key=lambda model: (apart[model].state is not PublishedState.REGRESSION, apart[model].state.value))
    page = apart[worst]
    others = tuple(
        f"{model}: {tools.part('profile_text').headline(one.report) if one.report else one.problem}"
        for model, one in apart.items()
        if model != worst and one.state.conclusion != "success"
    )
    rest = ", ".join(model for model in apart if model != worst)
    is_like_all = rest and all(one.state.conclusion == "success" for one in apart.values())
    scope = f"{worst}, and no worse on {rest}" if is_like_all else worst
    report = page.report and page.report.model_copy(update={"headline": f"{scope}: {page.report.headline}"})
    problem = f"{worst}: {page.problem}" if page.problem else ""
    return replace(page, report=report, problem=problem, notes=(*others, *page.notes), model=worst, models=apart)


def _of_own_machine(model: str, pages: Mapping[str, CommentPage]) -> CommentPage:
    """Return the page of a model; without its verdict where an earlier model has one of the same machine."""
    page = pages[model]
    for other, earlier in pages.items():
        if other == model or page.report is None:
            break
        if earlier.report and earlier.report.environment.fingerprint == page.report.environment.fingerprint:
            why = f"Its results are of the same kind of machine as those of {other}: look at the labels of its runner."
            return replace(page, report=None, problem=why)
    return page


# `ratchet ci recheck`: open pull requests whose verdict is about another base than they have now. GitHub starts nothing when it
# retargets a stacked pull request, and a new base starts no measurement. Where the commit at which the head left its base is the
# same, the samples are: the run is published again, by the rules of the new base. Where it is not, the check run asks for a new
# run.


def recheck(numbers: tuple[int, ...], report_id: str, github: GitHub, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each open pull request whose verdict was taken back; ``numbers`` are all of them if empty.

    Raises ForgeError where GitHub does not do its part.
    """
    pulls = map(github.pull, numbers) if numbers else github.open_pulls()
    for pull in pulls:
        if pull.state == "open" and (said := _recheck(pull, check_name(report_id), github, environ)):
            yield said


def _recheck(pull: Pull, check: str, github: GitHub, environ: Mapping[str, str]) -> str:
    told = known_checks(github.own_checks(check, pull.head_sha), pull.head_sha, github, environ)
    about = next((one for run, one in told if run.completed and one.base_ref), None)  # the newest counts on GitHub
    if about is None:
        return ""
    base = github.merge_base(pull.base_ref, pull.head_sha) or ""
    if (about.merge_base, about.base_ref) == (base, pull.base_ref):
        return ""
    was, now = (f"{untrusted.name(ref)} at {markdown(commit[:10] or 'an unknown commit')}" for ref, commit in (
        (about.base_ref, about.merge_base), (pull.base_ref, base)))  # fmt: skip
    same = base == about.merge_base
    next_step = "It is judged again by the rules of that branch." if same else "Start the measuring workflow again, or push."
    summary = f"The last verdict was about {was}. The pull request is now based on {now}. {next_step}"
    title = "Judged for another base" if same else "Measured against another base: measure again"
    log = f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{github.repository}/actions/runs/{about.run}"
    taken = github.open_check(check, pull.head_sha, log, str(CheckedBase(about.run, about.attempt, base, pull.base_ref)))
    github.complete_check(taken, "action_required", CheckOutput(title, summary, ""))
    if same:
        github.dispatch(REPORT_WORKFLOW, github.default_branch(), {"run_id": str(about.run)})
    return f"#{pull.number}: {title}."
