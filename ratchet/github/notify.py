"""`ratchet ci notify`: report a regression of main that two runs have shown, by an issue a cause and a webhook; and `ci culprit`.

The job that moves the baseline calls this after it. It reads the artifacts as hostile data, judges them by the checkout's own
settings and baseline, and writes issues through GitHub's API. A regression that was accepted in a pull request is left out.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from ratchet import tools
from ratchet.common.git_push import Remote
from ratchet.core import units, untrusted
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import loads
from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.run import CASE_NAME, Policy
from ratchet.core.request import BASELINE, Request, load_baseline
from ratchet.core.untrusted import clean
from ratchet.github.artifact import Intake
from ratchet.github.baseline_push import is_of_another, run_of_main, taken_in, unrecorded_acceptances
from ratchet.github.client import GitHub
from ratchet.github.errors import ArtifactError, UnreachableError
from ratchet.github.judge_again import by_case, with_sent_profiles
from ratchet.github.notice import (
    IssuePlan,
    causes_of,
    confirmed,
    digest_of,
    first_line,
    fixed_body,
    issue_body,
    issue_title,
    own_issue,
    plan_issues,
    settled,
    slack_message,
    with_culprit,
    without_machine,
)
from ratchet.github.records import Issue, Notice, SlowCause

LABEL = "ratchet-regression"
"""Of our issues: by it they are listed."""
BISECT = "ratchet_bisect.yml"
"""The workflow that searches for a commit, on the default branch."""
MARKER = "<!-- ratchet:regression:"
CONNECT_S, ANSWER_S = 5.0, 15.0
"""Seconds until the webhook is connected, and until each part of its answer."""
WHOLE_S = 30.0
"""Seconds until the whole answer: its parts may never end."""
COUNTERS = 12
"""Counters of one cause that an issue shows."""


@dataclass(frozen=True)
class Notified:
    """The messages, line by line; None: there was no news."""

    notice: Notice | None
    done: tuple[str, ...] = ()
    failed: RatchetError | None = None


def notify(
    artifacts: Sequence[Path],
    github: GitHub,
    send: Callable[[str, Any], str],
    request: Request,
    environ: Mapping[str, str],
    *,
    issues: bool,
    webhook: Literal["slack", "json"] | None,
    bisect: bool = False,
) -> Notified:
    """Open, renew and close issues, then call the webhook where there is news. An error of either is in the result.

    With ``bisect``, a search for the commit is started for each issue that was opened, or opened again.

    Raises UsageError for a run that is not of the default branch, ArtifactError for an artifact that may not be judged.
    """
    job = run_of_main(None, github, environ)
    clone = Remote(request.folder, "origin")
    settings = load_settings(clone.root, environ, request.options, request.folder)
    baseline = _baseline(clone, settings)
    intakes = [taken_in(artifact, job, environ) for artifact in artifacts]
    reports = [with_sent_profiles(judge_run(one.run, baseline, settings.policy), one) for one in intakes]
    acceptances = unrecorded_acceptances(github, clone, [one.run for one in intakes], job, environ)
    stored, head = baseline.entries(reports[0].environment.fingerprint), reports[0].head.commit
    taken = [one for report in reports for one in by_case(acceptances, report)]
    accepted = {one.case for one in taken if not is_of_another(one, stored.get(one.case), head)}
    slow = [case for case in confirmed(reports) if case.name not in accepted and not case.is_silenced]
    profiles = {profile.case: profile for report in reversed(reports) for profile in report.profiles}
    references = {case.name: case.reference_tree for case in intakes[0].run.cases if case.reference_tree}
    causes = [with_counters(cause, profiles) for cause in causes_of(slow, profiles, reports[0], references)] if slow else []
    notice = Notice(
        event="regression" if causes else "fixed",
        repository=github.repository,
        commit=reports[0].head.commit,
        run_url=job.url if job else "",
        headline=_headline(causes),
        causes=tuple(causes),
    )
    notified = Notified(notice if causes else None)
    if issues:
        machine = digest_of(reports[0].environment.fingerprint.processor) if settings.models else ""
        notified = _with_issues(notice, settled(reports) | accepted, github, bisect=bisect, machine=machine)
    if webhook is None or notified.notice is None:
        return notified
    try:
        address = environ.get("RATCHET_WEBHOOK_URL", "")
        if not address:
            raise UsageError("RATCHET_WEBHOOK_URL is not set, so there is no webhook to tell.", "Set the secret of that name.")
        host = send(address, slack_message(notified.notice) if webhook == "slack" else notified.notice.model_dump(mode="json"))
    except RatchetError as error:
        return replace(notified, failed=notified.failed or error)
    return replace(notified, done=(*notified.done, f"Told the webhook at {host}."))


def _baseline(clone: Remote, settings: Settings) -> Baseline:
    """Return the baseline of the checkout; in the mode ``branch`` that of its branch as it was fetched. Raises RecordError."""
    side = f"refs/remotes/{clone.name}/{settings.baseline_branch}"
    if settings.baseline_mode == "branch" and clone.hash_of(f"{side}^{{tree}}"):
        content = clone.file_in(side, name := f"{settings.results}/{BASELINE}")
        return Baseline() if content is None else loads(content, f"{name} of {settings.baseline_branch}", Baseline)
    return load_baseline(clone.root / settings.results)


def _headline(causes: Sequence[SlowCause]) -> str:
    names = [case.name for cause in causes for case in cause.cases]
    return (
        f"{units.plural(len(names), 'case')} of main became slower: {units.listed(names)}."
        if names
        else "Nothing of main is slower."
    )


def with_counters(cause: SlowCause, profiles: Mapping[str, CaseProfile]) -> SlowCause:
    """Return the cause with the first counters of the profile of its slowest case."""
    profile = profiles.get(cause.cases[0].name)
    rows = [row for table in tools.part("profile_text").tables(profile)[:1] for row in table.rows] if profile else []
    lines = [f"{row.title}: {row.reference} → {row.head} {row.change}".strip() for row in rows[:COUNTERS]]
    return cause.model_copy(update={"counters": tuple(lines)})


def _with_issues(notice: Notice, done: set[str], github: GitHub, *, bisect: bool, machine: str) -> Notified:
    """Write the issues. The notice that comes back has only what is news."""
    try:
        theirs = {issue.number: issue for issue in github.issues(LABEL, MARKER)}
        known = [own for issue in theirs.values() if (own := own_issue(issue))]
        keyed = [cause.model_copy(update={"key": digest_of(cause.key)}) for cause in notice.causes]
        plan = plan_issues(keyed, known, done, machine)
        written, news = _write(plan, theirs, notice, github, machine)
    except RatchetError as error:
        return Notified(notice if notice.causes else None, failed=error)
    lines, failed = [f"{what} #{issue.number}: {issue.title}" for what, issue in written], None
    try:
        for number, cause in news.items():
            if bisect and cause.good:  # of the slowest case of the issue
                search = {"case": cause.cases[0].name, "good": cause.good, "bad": cause.bad, "issue": str(number)}
                github.dispatch(BISECT, github.default_branch(), search)
                lines.append(f"Started {BISECT} for #{number}.")
    except RatchetError as error:
        failed = error
    lines += [f"#{issue.number} was closed as not planned: it stays closed." for issue, _ in plan.dismissed]
    fixed = tuple(name for issue in plan.closed for name in issue.cases)
    if not plan.news and not fixed:
        return Notified(None, tuple(lines), failed)
    told = notice.model_copy(update={"event": "regression" if plan.news else "fixed", "causes": plan.news, "fixed": fixed})
    headline = _headline(plan.news) if plan.news else f"No longer slower: {units.listed(list(fixed))}."
    urls = tuple(issue.url for _, issue in written)
    return Notified(told.model_copy(update={"headline": headline, "issues": urls}), tuple(lines), failed)


def _write(
    plan: IssuePlan, theirs: Mapping[int, Issue], notice: Notice, github: GitHub, machine: str
) -> tuple[list[tuple[str, Issue]], dict[int, SlowCause]]:
    """Return what was done to which issue, and the causes of those that were opened, by number."""
    done: list[tuple[str, Issue]] = []
    news: dict[int, SlowCause] = {}
    for cause in plan.opened:
        made = github.open_issue(issue_title(cause), issue_body(cause, notice, machine=machine), LABEL, first_line(cause.key))
        done.append(("Opened", made))
        news[made.number] = cause
    for issue, cause in plan.updated:
        body = issue_body(cause, notice, issue, machine)
        made = github.edit_issue(issue.number, issue_title(cause), body, is_open=None if issue.is_open else True)
        done.append(("Renewed" if issue.is_open else "Opened again", made))
        news |= {} if issue.is_open else {made.number: cause}
    for issue in plan.elsewhere:
        there = theirs[issue.number]
        github.edit_issue(issue.number, there.title, without_machine(there.body, machine))
    for issue in plan.closed:
        there = theirs[issue.number]
        done.append(("Closed", github.edit_issue(issue.number, there.title, fixed_body(there, notice), is_open=False)))
    return done, news


# The webhook: one request over the network, to https alone, without a redirection.


def send_to_webhook(address: str, document: Any) -> str:
    """Send one JSON document to an address that only its owner knows, such as an incoming webhook of Slack.

    Return the name of the host: no message of ours has more of the secret address than that. Raises UsageError for another
    address than https, UnreachableError.
    """
    import requests  # a twentieth of a second, which the commands that only write outputs do not need

    try:
        parts = urlsplit(address.strip())
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or parts.scheme != "https" or parts.username is not None:
        raise UsageError("The address of the webhook does not begin with https://, or is none.", "Correct the secret.")
    shown = clean(host, 80)
    answers: Future[int] = Future()

    def ask() -> None:
        try:
            # Not followed: the body would go to somebody else.
            with requests.post(
                address.strip(), json=document, timeout=(CONNECT_S, ANSWER_S), allow_redirects=False, stream=True
            ) as answer:
                answers.set_result(answer.status_code)
        except Exception as error:  # noqa: BLE001  of a thread: raised below
            answers.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()  # nobody waits for one that never ends
    try:
        status = answers.result(WHOLE_S)
    except (requests.Timeout, TimeoutError):
        raise UnreachableError(f"The webhook at {shown} did not answer in time.", "Run the job again.") from None
    except (requests.RequestException, ValueError):  # their texts hold the address
        raise UnreachableError(f"There is no connection to the webhook at {shown}.", "Check its address.") from None
    if not 200 <= status < 300:
        raise UnreachableError(f"The webhook at {shown} answered {status}.", "Check its address, and that it still exists.")
    return shown


# `ratchet ci culprit`: which commit a search has found, and how to see it again. The job that searched runs the measured code, so
# its artifact is hostile data. It holds the check of one commit against another: git says which commits these may be, and the
# samples how much slower the case is.


_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def tell_culprit(
    artifact: Path,
    github: GitHub,
    request: Request,
    environ: Mapping[str, str],
    *,
    case: str,
    good: str,
    bad: str,
    number: int,
) -> str:
    """Write what a search for a case, after ``good`` up to ``bad``, has found into issue ``number``, and return one sentence.

    Raises UsageError for an issue, a case or commits that cannot be of such a search, and ForgeError where GitHub refuses.
    """
    job = run_of_main(None, github, environ)
    if not CASE_NAME.fullmatch(case) or not all(map(_COMMIT.fullmatch, (good, bad))):
        raise UsageError("A search is for one case and between two full commits.", "Start the workflow as `ci notify` does.")
    issue = next((one for one in github.issues(LABEL, MARKER) if one.number == number), None)
    own = own_issue(issue) if issue else None
    if issue is None or own is None or case not in own.cases:
        raise UsageError(f"#{number} is no issue of ours about {case}.", "Name the one that `ci notify` opened.")
    clone = Remote(request.folder, "origin")
    if not clone.is_ancestor(good, bad) or not clone.is_ancestor(bad, "HEAD"):
        raise UsageError("These commits are not of this branch, one after the other.", "Fetch its whole history.")
    commits = [*clone.first_parents(good, bad), good]
    try:
        intake = taken_in(artifact, None, environ)
        policy = load_settings(clone.root, environ, request.options, request.folder).policy
        found = _found_commit(intake, case, commits, policy)
        lines = list(_culprit_lines(found, bad, clone.commit_snapshot(found.bad).tree.subject, job.url if job else ""))
        sentence = f"#{number}: {case} became slower at {found.bad[:10]}."
    except ArtifactError as error:
        note = "Every commit ran the benchmarks of the last one, so a change of these is not found."
        said = f"A search after {good} up to {bad} named no commit: {error.message} {note}"
        lines, sentence = [untrusted.markdown(said)], f"#{number}: {said}"
    github.edit_issue(issue.number, issue.title, with_culprit(issue, lines))
    return sentence


def _found_commit(intake: Intake, case: str, commits: list[str], policy: Policy) -> SlowCause:
    """Return the commit with its case and counters. ``commits``: of main, newest first. Raises ArtifactError."""
    run = intake.run
    reference = run.reference.commit if run.reference else ""
    if [one.name for one in run.cases] != [case] or run.best:
        raise ArtifactError("The run is not of this case alone.", "See the log of the job that searched.")
    if run.cases[0].reference_tree not in (None, run.reference):
        raise ArtifactError("The case was compared with another commit than the run.", "See the log of the job that searched.")
    if run.head.commit not in commits[:-1] or reference not in commits[commits.index(run.head.commit) + 1 :]:
        raise ArtifactError("The run compares no two commits of the range.", "See the log of the job that searched.")
    report = with_sent_profiles(judge_run(run, Baseline(), policy), intake)
    comparison = report.cases[0].comparison
    if comparison is None or comparison.low <= 1:
        raise ArtifactError("Its own measurement does not show that the commit is slower.", "")
    profiles = {profile.case: profile for profile in report.profiles}
    return with_counters(causes_of(report.cases, profiles, report)[0], profiles)


def _culprit_lines(found: SlowCause, bad: str, subject: str, url: str) -> Iterator[str]:
    """Yield Markdown about the commit: which, how much slower, the counters, and how to measure it again."""
    case = found.cases[0]
    change = " ".join(units.estimate(case.ratio, case.low, case.high))
    against = f"{untrusted.name(case.name)} {change} against {found.good}"
    yield f"**Culprit**: {found.bad} {untrusted.markdown(subject, 100)}"
    yield ""
    yield f"- {against}"
    yield f"- {untrusted.markdown(found.what)}"
    yield from (f"- {untrusted.markdown(counter, 200)}" for counter in found.counters)
    yield ""
    yield f"{untrusted.link(url, 'The search')} used the benchmarks of {bad}. To see it again:"
    yield ""
    again = f"ratchet bisect {case.name} {found.good[:10]} {found.bad[:10]}"
    yield untrusted.fenced([f"git switch --detach {bad[:10]}", again], "console")
    yield ""
