"""Carry out `ratchet ci command`: obey a comment or a label in a pull request, or reply there why not.

Only `ratchet ci command` calls `answer`. A command holds for the present head alone; GitHub is asked each time whether the person
may give it. Nothing of the pull request is checked out or run: through GitHub's API, this comments, reacts, and starts workflows
of the default branch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from ratchet.core.errors import UsageError
from ratchet.core.untrusted import markdown, name
from ratchet.github.client import GitHub
from ratchet.github.comment import failed_in, marker, run_id_of, sha_of
from ratchet.github.connection import ACTIONS
from ratchet.github.event import Accept, BadCommand, CommentEvent, DispatchEvent, Event, LabelEvent, ProfileWanted, parse_command
from ratchet.github.judge_again import ARTIFACT, EVERY, rules_at
from ratchet.github.provenance import measured_on
from ratchet.github.records import Acceptance, Comment, Pull
from ratchet.github.state import LABEL, WRITERS, acknowledged_in, acknowledgement

REPORT_WORKFLOW, PROFILE = "ratchet_report.yml", "cuda_profile.yml"
"""The workflows that are started, on the default branch."""
_INPUTS = {"pr": r"[1-9][0-9]{0,9}", "sha": r"[0-9a-f]{40}([0-9a-f]{24})?", "actor": r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?"}


@dataclass(frozen=True)
class CommandReply:
    """The result in one sentence."""

    sentence: str
    done: bool = False
    """Whether a command was carried out."""


class CommandRefused(Exception):
    """The command is not carried out. Its text is one sentence of Markdown, in which a stranger's words are escaped."""


@dataclass(frozen=True)
class CommandContext:
    """A command in a pull request. Each question to GitHub about it is asked once."""

    github: GitHub
    number: int
    by: str
    comment: Comment | None
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
    def ours(self) -> list[Comment]:
        """The comments that look like our report, the newest last."""
        first = marker(self.report_id)
        return [comment for comment in self.comments if comment.author == self.github.bot and comment.body.startswith(first)]

    @cached_property
    def report(self) -> Comment | None:
        """Our newest report of the present head. Other workflows may write in our bot's name, so GitHub has to know its run."""
        head = self.pull.head_sha
        of_head = [comment for comment in self.ours if sha_of(comment.body) == head]
        known = {run.id for run in measured_on(head, self.github, self.environ)} if of_head else set()
        return next((comment for comment in reversed(of_head) if run_id_of(comment.body) in known), None)


def answer(event: Event, github: GitHub, environ: Mapping[str, str], report_id: str) -> CommandReply:
    """Carry out the command of an event for a person with write access, or say in the pull request why not.

    Raises UsageError for an event that cannot hold a command, ForgeError where GitHub does not do its part.
    """
    if isinstance(event, CommentEvent):
        return _answer_comment(event, github, environ, report_id)
    if isinstance(event, LabelEvent):
        if (event.action, event.label) != ("labeled", LABEL):
            return CommandReply(f"Only setting the label {LABEL} is a command.")
        return _answer_label(CommandContext(github, event.number, event.actor, None, environ, report_id), event.head_sha)
    if isinstance(event, DispatchEvent):
        inputs = {key: event.inputs.get(key, "") for key in _INPUTS}
        wrong = [key for key, pattern in _INPUTS.items() if not re.fullmatch(pattern, inputs[key])]
        if wrong:
            raise UsageError(f"The input {wrong[0]} is missing or not valid.", "The label's job gives all three.")
        # The job that saw the label has its own token, and speaks for whoever set it; a person who starts the workflow by hand
        # speaks for nobody else.
        by = inputs["actor"] if event.actor == ACTIONS else event.actor
        return _answer_label(CommandContext(github, int(inputs["pr"]), by, None, environ, report_id), inputs["sha"])
    raise UsageError("This event holds no command.", "Commands come by issue_comment, or by the label ratchet:accept.")


def _answer_comment(event: CommentEvent, github: GitHub, environ: Mapping[str, str], report_id: str) -> CommandReply:
    if event.action != "created" or event.pull_request is None or event.author == github.bot:
        return CommandReply("Only a person's new comment on a pull request can hold a command.")
    if parse_command(event.body) is None:
        return CommandReply("The comment holds no command.")
    comment = github.comment(event.comment_id)  # the event's copy may be out of date
    command = parse_command(comment.body) if comment else None
    if comment is None or command is None:
        return CommandReply("The comment was deleted or changed before it was read.")
    if github.permission(comment.author) not in WRITERS:
        github.react(comment.id, "confused")  # no reply: strangers could have the bot write as much as they like
        return CommandReply(f"{name(comment.author)} has no write access to the repository.")
    order = CommandContext(github, event.number, comment.author, comment, environ, report_id)
    try:
        if comment.updated_at != comment.created_at:
            raise CommandRefused("The comment was edited, so it is not certain who wrote the command. Write a new one.")
        if order.pull.state != "open":
            raise CommandRefused("The pull request is closed: there is nothing to do.")
        if isinstance(command, BadCommand):
            raise CommandRefused(command.sentence)
        github.react(comment.id, "eyes")
        if isinstance(command, Accept):
            _accept(order, comment, command)
        else:
            _profile(order, comment, command)
    except CommandRefused as refusal:
        return _reply_refusal(order, refusal)
    github.react(comment.id, "+1")
    done = "Accepted" if isinstance(command, Accept) else "Profiling"
    head = order.pull.head_sha[:10]
    return CommandReply(f"{done}: {', '.join(command.cases)} at {head}, asked for by {comment.author}.", done=True)


def _answer_label(order: CommandContext, sha: str) -> CommandReply:
    """Accept every regression of the present head, if it is the head ``sha`` that was labelled."""
    try:
        if order.github.permission(order.by) not in WRITERS:
            raise CommandRefused(f"{name(order.by)} set the label {name(LABEL)}, which takes write access to the repository.")
        if order.pull.state != "open" or LABEL not in order.pull.labels:
            return CommandReply("The pull request is closed, or the label was taken off again.")
        if sha != order.pull.head_sha:
            raise CommandRefused(
                f"The head has moved since {name(LABEL)} was set. Take the label off, look at the new report, and set it again."
            )
        _refuse_unreported(order)
    except CommandRefused as refusal:
        return _reply_refusal(order, refusal)
    before = acknowledged_in(order.comments, order.github.bot)
    known = [acceptance for acceptance in before if (acceptance.sha, acceptance.comment, acceptance.by) == (sha, None, order.by)]
    reason = f"The label {LABEL} was set."
    every = Acceptance(case=EVERY, reason=reason, by=order.by, sha=sha, comment=None, at=datetime.now(UTC))
    # A job that runs again acknowledges with the same first line, so that no second reply is made.
    _acknowledge(order, known[:1] or [every], f"{name(order.by)} accepts every regression, by the label {name(LABEL)}")
    return CommandReply(f"Accepted: every regression at {sha[:10]}, by the label that {order.by} set.", done=True)


def _accept(order: CommandContext, comment: Comment, command: Accept) -> None:
    """Acknowledge the acceptance for the present head, and have the run published again."""
    _refuse_unreported(order)
    _refuse_unknown_cases(order, command.cases)
    failed = set(failed_in(order.report.body if order.report else "")).intersection(command.cases)
    if failed:
        names = ", ".join(map(name, sorted(failed)))
        raise CommandRefused(f"{names} failed: it gave a wrong result or did not run. Only a slowdown can be accepted.")
    common = {"reason": command.reason, "by": order.by, "sha": order.pull.head_sha, "comment": comment.id}
    acceptances = [Acceptance(case=case, at=comment.created_at, **common) for case in command.cases]
    cases = ", ".join(map(name, command.cases))
    _acknowledge(order, acceptances, f"{name(order.by)} accepts {cases}: {markdown(command.reason)}")


def _profile(order: CommandContext, comment: Comment, command: ProfileWanted) -> None:
    """Have both sides of the cases profiled at the present head, once the reviewers of the GPU's environment agree."""
    _refuse_unknown_cases(order, command.cases)
    pull = order.pull  # GitHub's base is where that branch stood when the head was pushed, with what others did meanwhile
    base = order.github.merge_base(pull.base_ref, pull.head_sha) or pull.base_sha
    inputs = {"case": " ".join(command.cases), "base": base, "sha": pull.head_sha}
    order.github.dispatch(PROFILE, order.github.default_branch(), inputs)
    first = f"<!-- ratchet:reply:comment:{comment.id} -->"
    text = f"Profiling {', '.join(map(name, command.cases))} at {order.pull.head_sha} in the workflow {name(PROFILE)}."
    order.github.reply(order.number, f"{first}\n{text} If it has reviewers, it waits for their approval.", first)


def _acknowledge(order: CommandContext, acceptances: list[Acceptance], sentence: str) -> None:
    first = acknowledgement(acceptances)
    until = f"This holds for {order.pull.head_sha} alone, and ends when the head moves. The report is on its way."
    order.github.reply(order.number, f"{first}\n{sentence}.\n\n{until}", first)
    run_id = run_id_of(order.report.body) if order.report else None
    order.github.dispatch(REPORT_WORKFLOW, order.github.default_branch(), {"run_id": str(run_id)})


def _refuse_unreported(order: CommandContext) -> None:
    """Raise Refused unless there is a report of the present head, older than the command: an unseen result cannot be accepted."""
    head, report = order.pull.head_sha, order.report
    run_id = run_id_of(report.body) if report else None
    if report is None or run_id is None:
        raise CommandRefused(
            f"There is no report of the head {head[:10]} yet. Wait for it, look at it, and give the command again."
        )
    if not order.github.has_artifact(run_id, ARTIFACT):
        raise CommandRefused(
            f"The measurements of run {run_id} have expired, or there were none, so they cannot be judged again: the verdict "
            "stays as it is. Start that run again, and give the command when its report is there."
        )
    renewed = order.comment is not None and report.updated_at > order.comment.created_at
    accepted_before = any(acceptance.sha == head for acceptance in acknowledged_in(order.comments, order.github.bot))
    if renewed and not accepted_before:
        raise CommandRefused(f"The report of {head[:10]} came after the comment. Look at it, and give the command again.")


def _refuse_unknown_cases(order: CommandContext, cases: tuple[str, ...]) -> None:
    """Raise Refused for cases that neither the base ref's baseline nor a report of ours names."""
    stored = rules_at(order.github, order.pull.base_ref, order.environ, {}).baseline
    known = {case for _, case, _ in stored.every()}
    text = "".join(comment.body for comment in order.ours).replace("<wbr>", "")  # a table breaks names there, for phones
    unknown = [case for case in cases if case not in known and f"`{case}`" not in text and f"<code>{case}</code>" not in text]
    if unknown:
        raise CommandRefused(
            f"There is no case {', '.join(map(name, unknown[:5]))}. Name it as the report does, benchmark/config."
        )


def _reply_refusal(order: CommandContext, refusal: CommandRefused) -> CommandReply:
    """Reply with the refusal in the pull request, once."""
    if order.comment:
        order.github.react(order.comment.id, "confused")
    about = f"comment:{order.comment.id}" if order.comment else f"label:{order.pull.head_sha}"
    first = f"<!-- ratchet:reply:{about} -->"
    order.github.reply(order.number, f"{first}\n{refusal}", first)
    return CommandReply(str(refusal))
