"""`ratchet ci notify`: report a regression of main that two runs have shown, by one issue a cause and by a webhook.

The job that moves the baseline calls this after it. It reads the artifacts as hostile data, judges them by the checkout's own
settings and baseline, and writes issues through GitHub's API. A regression that was accepted in a pull request is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from ratchet import tools
from ratchet.common.git_push import Remote
from ratchet.core import units
from ratchet.core.config import load_settings
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.profile import CaseProfile
from ratchet.core.request import Request, load_baseline
from ratchet.core.untrusted import clean
from ratchet.github.baseline_push import run_of_main, taken_in, unrecorded_acceptances
from ratchet.github.client import GitHub
from ratchet.github.errors import UnreachableError
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
    baseline = load_baseline(clone.root / settings.results)
    intakes = [taken_in(artifact, job, environ) for artifact in artifacts]
    reports = [with_sent_profiles(judge_run(one.run, baseline, settings.policy), one) for one in intakes]
    acceptances = unrecorded_acceptances(github, clone, [one.run for one in intakes], job, environ)
    accepted = {one.case for report in reports for one in by_case(acceptances, report)}
    slow = [case for case in confirmed(reports) if case.name not in accepted and not case.is_silenced]
    profiles = {profile.case: profile for report in reversed(reports) for profile in report.profiles}
    causes = [with_counters(cause, profiles) for cause in causes_of(slow, profiles, reports[0])] if slow else []
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
        notified = _with_issues(notice, settled(reports) | accepted, github, bisect=bisect)
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


def _with_issues(notice: Notice, done: set[str], github: GitHub, *, bisect: bool) -> Notified:
    """Write the issues. The notice that comes back has only what is news."""
    try:
        theirs = {issue.number: issue for issue in github.issues(LABEL, MARKER)}
        known = [own for issue in theirs.values() if (own := own_issue(issue))]
        keyed = [cause.model_copy(update={"key": digest_of(cause.key)}) for cause in notice.causes]
        plan = plan_issues(keyed, known, done)
        written, news = _write(plan, theirs, notice, github)
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
    plan: IssuePlan, theirs: Mapping[int, Issue], notice: Notice, github: GitHub
) -> tuple[list[tuple[str, Issue]], dict[int, SlowCause]]:
    """Return what was done to which issue, and the causes of those that were opened, by number."""
    done: list[tuple[str, Issue]] = []
    news: dict[int, SlowCause] = {}
    for cause in plan.opened:
        made = github.open_issue(issue_title(cause), issue_body(cause, notice), LABEL, first_line(cause.key))
        done.append(("Opened", made))
        news[made.number] = cause
    for issue, cause in plan.updated:
        made = github.edit_issue(issue.number, issue_title(cause), issue_body(cause, notice, issue), is_open=True)
        done.append(("Renewed" if issue.is_open else "Opened again", made))
        news |= {} if issue.is_open else {made.number: cause}
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
