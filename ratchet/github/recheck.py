"""`ratchet ci recheck`: find open pull requests whose verdict is about another base than they have now.

GitHub starts nothing when it retargets a stacked pull request, and a new base starts no measurement. Where the commit at which
the head left its base is the same, the samples are: the run is published again, by the rules of the new base. Where it is not,
the check run asks for a new run. Reads pull requests and check runs; writes check runs and starts a workflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ratchet.core.untrusted import markdown, name
from ratchet.github.client import GitHub
from ratchet.github.command import REPORT
from ratchet.github.provenance import CheckedBase, known_checks
from ratchet.github.publish import check_name
from ratchet.github.records import CheckOutput, Pull


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
    was, now = (f"{name(ref)} at {markdown(commit[:10] or 'an unknown commit')}" for ref, commit in (
        (about.base_ref, about.merge_base), (pull.base_ref, base)))  # fmt: skip
    same = base == about.merge_base
    next_step = "It is judged again by the rules of that branch." if same else "Start the measuring workflow again, or push."
    summary = f"The last verdict was about {was}. The pull request is now based on {now}. {next_step}"
    title = "Judged for another base" if same else "Measured against another base: measure again"
    log = f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{github.repository}/actions/runs/{about.run}"
    taken = github.open_check(check, pull.head_sha, log, str(CheckedBase(about.run, about.attempt, base, pull.base_ref)))
    github.complete_check(taken, "action_required", CheckOutput(title, summary, ""))
    if same:
        github.dispatch(REPORT, github.default_branch(), {"run_id": str(about.run)})
    return f"#{pull.number}: {title}."
