"""`ratchet command`: a comment or a label in a pull request → an answer, bound to its head, and a workflow started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ratchet.errors import UsageError
from ratchet.judge.acceptance import LABEL, WRITERS
from ratchet.judge.command import Accept, BadCommand, parse_command
from ratchet.judge.event import CommentMade, Dispatched, Event, Labelled
from ratchet.pipeline.orders import Order, accept, accept_by_label, profile
from ratchet.records.forge import Comment
from ratchet.report.escape import name as shown

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub

_INPUTS = {"pr": r"[1-9][0-9]{0,9}", "sha": r"[0-9a-f]{40}([0-9a-f]{24})?", "actor": r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?"}


@dataclass(frozen=True)
class Answered:
    """What came of it, in one sentence."""

    sentence: str
    done: bool = False
    """Whether a command was carried out."""


def answer(event: Event, github: GitHub, environ: Mapping[str, str], report_id: str) -> Answered:
    """Carry out what a person with write access asks for, or say under the pull request why not.

    Raises UsageError for an event that asks for nothing, ForgeError where GitHub does not do its part.
    """
    if isinstance(event, CommentMade):
        return _to_comment(event, github, environ, report_id)
    if isinstance(event, Labelled):
        if (event.action, event.label) != ("labeled", LABEL):
            return Answered("This label is none of ours.")
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


def _to_comment(event: CommentMade, github: GitHub, environ: Mapping[str, str], report_id: str) -> Answered:
    if event.action != "created" or not event.on_pull_request or event.author == github.bot:
        return Answered("This is no new comment of a person on a pull request.")
    if parse_command(event.body) is None:
        return Answered("The comment holds no command.")
    said = github.comment(event.comment_id)
    wanted = parse_command(said.body) if said else None
    if said is None or wanted is None:
        return Answered("The comment was deleted or changed before it was read.")
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
    return Answered(f"{what}: {', '.join(wanted.cases)} at {order.pull.head_sha[:10]}, asked for by {said.author}.", done=True)


def _barred(order: Order, said: Comment) -> str:
    """Why nothing is done here for this person, whatever it is; empty where nothing is in the way."""
    if order.github.permission(said.author) not in WRITERS:
        return f"{shown(said.author)}, this takes write access to the repository."
    if said.updated_at != said.created_at:
        return "The comment was edited, so nobody can tell who meant what: write a new one."
    return "" if order.pull.state == "open" else "The pull request is closed: there is nothing to do."


def _to_label(number: int, sha: str, by: str, github: GitHub, environ: Mapping[str, str], report_id: str) -> Answered:
    order = Order(github, number, by, None, environ, report_id)
    if github.permission(by) not in WRITERS:
        return _refused(order, f"{shown(by)} set the label {shown(LABEL)}, which takes write access to the repository.")
    if order.pull.state != "open" or LABEL not in order.pull.labels:
        return Answered("The pull request is closed, or the label was taken off again.")
    if sha != order.pull.head_sha:
        return _refused(order, f"The head moved since {shown(LABEL)} was set: take the label off, look again, set it again.")
    refusal = accept_by_label(order)
    if refusal:
        return _refused(order, refusal)
    return Answered(f"Accepted: every regression at {sha[:10]}, by the label that {by} set.", done=True)


def _refused(order: Order, sentence: str) -> Answered:
    """Say so under the pull request, once."""
    said: Comment | None = order.said
    if said:
        order.github.react(said.id, "confused")
    about = f"comment:{said.id}" if said else f"label:{order.pull.head_sha}"
    marker = f"<!-- ratchet:reply:{about} -->"
    order.github.reply(order.pull.number, f"{marker}\n{sentence}", marker)
    return Answered(sentence)
