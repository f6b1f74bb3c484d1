"""What a command does. Each returns the sentence why it is not carried out, empty where it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from ratchet.judge.acceptance import LABEL, acknowledged_in, acknowledgement
from ratchet.judge.command import Accept, ProfileWanted
from ratchet.pipeline.accepting import EVERY
from ratchet.pipeline.at_ref import rules_at
from ratchet.records.acceptance import Acceptance
from ratchet.records.forge import Comment, Pull
from ratchet.report.escape import markdown
from ratchet.report.escape import name as shown
from ratchet.report.markers import marker, run_id_of, sha_of

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub

REPORT, PROFILE = "ratchet_report.yml", "cuda_profile.yml"
"""The workflows that are started, on the default branch."""
_LABEL_REASON = f"The label {LABEL} was set."


@dataclass(frozen=True)
class Order:
    """Who asks for something, and where. What GitHub knows is asked once."""

    github: GitHub
    number: int
    by: str
    said: Comment | None
    """None for a label."""
    environ: Mapping[str, str]
    report_id: str

    @cached_property
    def pull(self) -> Pull:
        return self.github.pull(self.number)

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        return self.github.comments(self.number)

    @cached_property
    def report(self) -> Comment | None:
        """The newest of our reports there."""
        first = marker(self.report_id)
        ours = [each for each in self.comments if each.author == self.github.bot and each.body.startswith(first)]
        return ours[-1] if ours else None


def accept(order: Order, wanted: Accept) -> str:
    """Acknowledge it for the present head, and have the run published again."""
    refusal = _unreported(order) or _unknown(order, wanted.cases)
    if refusal or order.said is None:
        return refusal
    told = {"reason": wanted.reason, "by": order.by, "sha": order.pull.head_sha, "comment": order.said.id}
    acceptances = [Acceptance(case=case, at=order.said.created_at, **told) for case in wanted.cases]
    cases = ", ".join(shown(case) for case in wanted.cases)
    return _acknowledged(order, acceptances, f"{shown(order.by)} accepts {cases}: {markdown(wanted.reason)}")


def accept_by_label(order: Order) -> str:
    """The same for every regression of the present head."""
    refusal = _unreported(order)
    if refusal:
        return refusal
    head = order.pull.head_sha
    known = [
        each
        for each in acknowledged_in(order.comments, order.github.bot)
        if (each.sha, each.comment, each.by) == (head, None, order.by)
    ]
    every = Acceptance(case=EVERY, reason=_LABEL_REASON, by=order.by, sha=head, comment=None, at=datetime.now(UTC))
    return _acknowledged(order, known[:1] or [every], f"{shown(order.by)} accepts every regression, by the label {shown(LABEL)}")


def profile(order: Order, wanted: ProfileWanted) -> str:
    """Have both sides of the cases profiled at the present head, once whoever guards the GPU agrees."""
    refusal = _unknown(order, wanted.cases)
    if refusal or order.said is None:
        return refusal
    inputs = {"case": " ".join(wanted.cases), "base": order.pull.base_sha, "sha": order.pull.head_sha}
    order.github.dispatch(PROFILE, order.github.default_branch(), inputs)
    first = f"<!-- ratchet:reply:comment:{order.said.id} -->"
    cases = ", ".join(shown(case) for case in wanted.cases)
    text = (
        f"Profiling {cases} at {order.pull.head_sha}, in the workflow {shown(PROFILE)}, once its reviewers agree if it has any."
    )
    order.github.reply(order.number, f"{first}\n{text}", first)
    return ""


def _acknowledged(order: Order, acceptances: list[Acceptance], sentence: str) -> str:
    first = acknowledgement(acceptances)
    until = f"This holds for {order.pull.head_sha} alone, and ends when the head moves. The report is on its way."
    order.github.reply(order.number, f"{first}\n{sentence}.\n\n{until}", first)
    run_id = run_id_of(order.report.body) if order.report else None
    order.github.dispatch(REPORT, order.github.default_branch(), {"run_id": str(run_id)})
    return ""


def _unreported(order: Order) -> str:
    """Nobody accepts what nobody has seen: there must be a report of the present head, older than the comment."""
    head, report = order.pull.head_sha, order.report
    if report is None or sha_of(report.body) != head or run_id_of(report.body) is None:
        return f"There is no report of the head {head[:10]} yet: wait for it, look at it, and say it again."
    renewed = order.said is not None and report.updated_at > order.said.created_at
    accepted_before = any(each.sha == head for each in acknowledged_in(order.comments, order.github.bot))
    if renewed and not accepted_before:
        return f"The report of {head[:10]} came after the comment: look at it, and say it again."
    return ""


def _unknown(order: Order, cases: tuple[str, ...]) -> str:
    """Cases that neither the base ref's baseline nor our report knows."""
    stored = rules_at(order.github, order.pull.base_ref, order.environ, {}).baseline
    names = {name for _, name, _ in stored.every()}
    text = order.report.body if order.report else ""
    left = [case for case in cases if case not in names and f"`{case}`" not in text]
    if not left:
        return ""
    return f"There is no case {', '.join(shown(case) for case in left[:5])}: name each as the report does, benchmark/config."
