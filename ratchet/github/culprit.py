"""`ratchet ci culprit`: tell the issue of a regression which commit a search has found, and how to see it again.

The job that searched runs the measured code, so its artifact is hostile data. It holds the check of one commit against another:
which commits these may be says git, and how much slower the case is comes from the samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ratchet.common.git_push import Remote
from ratchet.core import units, untrusted
from ratchet.core.config import load_settings
from ratchet.core.errors import UsageError
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CASE_NAME, Policy
from ratchet.core.request import Request
from ratchet.github.artifact import Intake
from ratchet.github.baseline_push import run_of_main, taken_in
from ratchet.github.client import GitHub
from ratchet.github.errors import ArtifactError
from ratchet.github.judge_again import with_sent_profiles
from ratchet.github.notice import causes_of, own_issue, with_culprit
from ratchet.github.notify import LABEL, MARKER, with_counters
from ratchet.github.records import SlowCause

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
        found = _found(intake, case, commits, policy)
        lines = list(_lines(found, bad, clone.commit_snapshot(found.bad).tree.subject, job.url if job else ""))
        sentence = f"#{number}: {case} became slower at {found.bad[:10]}."
    except ArtifactError as error:
        note = "Every commit ran the benchmarks of the last one, so a change of these is not found."
        said = f"A search after {good} up to {bad} named no commit: {error.message} {note}"
        lines, sentence = [untrusted.markdown(said)], f"#{number}: {said}"
    github.edit_issue(issue.number, issue.title, with_culprit(issue, lines), is_open=issue.is_open)
    return sentence


def _found(intake: Intake, case: str, commits: list[str], policy: Policy) -> SlowCause:
    """Return the commit with its case and counters. ``commits``: of main, newest first. Raises ArtifactError."""
    run = intake.run
    reference = run.reference.commit if run.reference else ""
    if [one.name for one in run.cases] != [case]:
        raise ArtifactError("The run is not of this case alone.", "See the log of the job that searched.")
    if run.head.commit not in commits[:-1] or reference not in commits[commits.index(run.head.commit) + 1 :]:
        raise ArtifactError("The run compares no two commits of the range.", "See the log of the job that searched.")
    report = with_sent_profiles(judge_run(run, Baseline(), policy), intake)
    comparison = report.cases[0].comparison
    if comparison is None or comparison.low <= 1:
        raise ArtifactError("Its own measurement does not show that the commit is slower.", "")
    profiles = {profile.case: profile for profile in report.profiles}
    return with_counters(causes_of(report.cases, profiles, report)[0], profiles)


def _lines(found: SlowCause, bad: str, subject: str, url: str) -> Iterator[str]:
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
