"""The conversation of a pull request: one comment that is kept up to date, replies that are made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ratchet.errors import GoneError, UnreachableError
from ratchet.forge import api_values
from ratchet.forge.connection import Connection
from ratchet.records.forge import Comment

if TYPE_CHECKING:
    from github.IssueComment import IssueComment

    from ratchet.forge.tries import Tries


class Conversation(Connection):
    """Reads all comments, and writes only those of our own bot that begin with the marker asked for."""

    def comments(self, number: int) -> tuple[Comment, ...]:
        """The whole conversation of a pull request, oldest first, all pages."""
        return self._comments(number, self._tries())

    def comment(self, comment_id: int) -> Comment | None:
        """One comment; None where it was deleted."""
        try:
            return self._tries().call(f"Reading comment {comment_id}", lambda: api_values.comment(self._api_comment(comment_id)))
        except GoneError:
            return None

    def upsert_comment(self, number: int, marker: str, body: str) -> Comment:
        """Our bot's newest comment that begins with the marker gets the body, or, if there is none, a comment is made.

        Comments of others are left alone, whatever they begin with. RefusedError where the body is too long.
        """
        tries = self._tries()
        while True:
            ours = self._ours(number, marker, tries)
            try:
                return self._edit_comment(ours.id, body, tries) if ours else self._add_comment(number, marker, body, tries)
            except GoneError as error:
                if ours is None:
                    raise
                tries.wait(error)  # it was deleted since it was listed
            except UnreachableError as error:
                if ours is not None:
                    raise
                tries.wait(error)

    def reply(self, number: int, body: str, marker: str) -> Comment:
        """A comment that is made once: with the same marker again, the first one is given back as it is."""
        tries = self._tries()
        while True:
            if ours := self._ours(number, marker, tries):
                return ours
            try:
                return self._add_comment(number, marker, body, tries)
            except UnreachableError as error:
                tries.wait(error)

    def react(self, comment_id: int, content: str) -> None:
        """Put a reaction (``+1``, ``eyes``, ``confused``, …) under a comment; a second time it changes nothing."""
        self._tries().call(f"Reacting to comment {comment_id}", lambda: self._api_comment(comment_id).create_reaction(content))

    def _comments(self, number: int, tries: Tries) -> tuple[Comment, ...]:
        return tries.call(
            f"Reading the comments of pull request {number}",
            lambda: tuple(map(api_values.comment, self._api.get_issue(number).get_comments())),
        )

    def _ours(self, number: int, marker: str, tries: Tries) -> Comment | None:
        """Our bot's newest comment that begins with the marker."""
        mine = [each for each in self._comments(number, tries) if each.author == self.bot and each.body.startswith(marker)]
        return max(mine, key=lambda each: each.id, default=None)

    def _add_comment(self, number: int, marker: str, body: str, tries: Tries) -> Comment:
        if not body.startswith(marker):
            raise ValueError("the body has to begin with the marker, or it is never found again")
        issue = self._api.get_issue(number)
        return tries.call_once(f"Commenting on pull request {number}", lambda: api_values.comment(issue.create_comment(body)))

    def _edit_comment(self, comment_id: int, body: str, tries: Tries) -> Comment:
        def edit() -> Comment:
            comment = self._api_comment(comment_id)
            comment.edit(body)
            return api_values.comment(comment)

        return tries.call(f"Updating comment {comment_id}", edit)

    def _api_comment(self, comment_id: int) -> IssueComment:
        # Its address does not name the pull request, though PyGithub asks for one.
        return self._api.get_issue(0).get_comment(comment_id)
