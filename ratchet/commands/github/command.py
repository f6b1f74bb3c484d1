"""What a command does. Each returns the sentence why it is not carried out, empty where it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from ratchet.commands.github.judge_again import EVERY, rules_at
from ratchet.errors import UsageError
from ratchet.judge.github.acceptance import LABEL, WRITERS, acknowledged_in, acknowledgement
from ratchet.judge.github.command import Accept, BadCommand, ProfileWanted, parse_command
from ratchet.judge.github.event import CommentMade, Dispatched, Event, Labelled
from ratchet.records.acceptance import Acceptance
from ratchet.records.forge import Comment, Pull
from ratchet.report.comment import marker, run_id_of, sha_of
from ratchet.untrusted import markdown
from ratchet.untrusted import name as shown

if TYPE_CHECKING:
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


# `ratchet command`: a comment or a label in a pull request → an answer, bound to its head, and a workflow started.


_INPUTS = {"pr": r"[1-9][0-9]{0,9}", "sha": r"[0-9a-f]{40}([0-9a-f]{24})?", "actor": r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?"}


@dataclass(frozen=True)
class CommandReply:
    """What came of it, in one sentence."""

    sentence: str
    done: bool = False
    """Whether a command was carried out."""


def answer(event: Event, github: GitHub, environ: Mapping[str, str], report_id: str) -> CommandReply:
    """Carry out what a person with write access asks for, or say under the pull request why not.

    Raises UsageError for an event that asks for nothing, ForgeError where GitHub does not do its part.
    """
    if isinstance(event, CommentMade):
        return _to_comment(event, github, environ, report_id)
    if isinstance(event, Labelled):
        if (event.action, event.label) != ("labeled", LABEL):
            return CommandReply("This label is none of ours.")
        return _to_label(event.number, event.head_sha, event.actor, github, environ, report_id)
    if isinstance(event, Dispatched):
        given = {name: event.inputs.get(name, "") for name in _INPUTS}
        wrong = [name for name, pattern in _INPUTS.items() if not re.fullmatch(pattern, given[name])]
        if wrong:
            raise UsageError(
                f"The input {wrong[0]} is missing or is none of GitHub's.", "A label starts this; see docs/github.md."
            )
        # The bot speaks for whoever set the label; a person who starts the workflow by hand speaks for nobody else.
        by = given["actor"] if event.actor == github.bot else event.actor
        return _to_label(int(given["pr"]), given["sha"], by, github, environ, report_id)
    raise UsageError("This event holds no command.", "Commands come by issue_comment, or by a label; see docs/github.md.")


def _to_comment(event: CommentMade, github: GitHub, environ: Mapping[str, str], report_id: str) -> CommandReply:
    if event.action != "created" or not event.on_pull_request or event.author == github.bot:
        return CommandReply("This is no new comment of a person on a pull request.")
    if parse_command(event.body) is None:
        return CommandReply("The comment holds no command.")
    said = github.comment(event.comment_id)
    wanted = parse_command(said.body) if said else None
    if said is None or wanted is None:
        return CommandReply("The comment was deleted or changed before it was read.")
    order = Order(github, event.number, said.author, said, environ, report_id)
    refusal = _barred(order, said) or (wanted.sentence if isinstance(wanted, BadCommand) else "")
    if refusal or isinstance(wanted, BadCommand):
        return _refused(order, refusal)
    github.react(said.id, "eyes")
    refusal = accept(order, wanted) if isinstance(wanted, Accept) else profile(order, wanted)
    if refusal:
        return _refused(order, refusal)
    github.react(said.id, "+1")
    what = "Accepted" if isinstance(wanted, Accept) else "Profiling"
    return CommandReply(
        f"{what}: {', '.join(wanted.cases)} at {order.pull.head_sha[:10]}, asked for by {said.author}.", done=True
    )


def _barred(order: Order, said: Comment) -> str:
    """Why nothing is done here for this person, whatever it is; empty where nothing is in the way."""
    if order.github.permission(said.author) not in WRITERS:
        return f"{shown(said.author)}, this takes write access to the repository."
    if said.updated_at != said.created_at:
        return "The comment was edited, so nobody can tell who meant what: write a new one."
    return "" if order.pull.state == "open" else "The pull request is closed: there is nothing to do."


def _to_label(number: int, sha: str, by: str, github: GitHub, environ: Mapping[str, str], report_id: str) -> CommandReply:
    order = Order(github, number, by, None, environ, report_id)
    if github.permission(by) not in WRITERS:
        return _refused(order, f"{shown(by)} set the label {shown(LABEL)}, which takes write access to the repository.")
    if order.pull.state != "open" or LABEL not in order.pull.labels:
        return CommandReply("The pull request is closed, or the label was taken off again.")
    if sha != order.pull.head_sha:
        return _refused(order, f"The head moved since {shown(LABEL)} was set: take the label off, look again, set it again.")
    refusal = accept_by_label(order)
    if refusal:
        return _refused(order, refusal)
    return CommandReply(f"Accepted: every regression at {sha[:10]}, by the label that {by} set.", done=True)


def _refused(order: Order, sentence: str) -> CommandReply:
    """Say so under the pull request, once."""
    said: Comment | None = order.said
    if said:
        order.github.react(said.id, "confused")
    about = f"comment:{said.id}" if said else f"label:{order.pull.head_sha}"
    marker = f"<!-- ratchet:reply:{about} -->"
    order.github.reply(order.pull.number, f"{marker}\n{sentence}", marker)
    return CommandReply(sentence)
