"""Put the record for verdicts without a GPU (``static.json``) of a run of main beside the baseline, as `ratchet ci push` does.

It is read from the artifact within the limits of every record, and counts only for the commit that GitHub says was measured.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ratchet import tools
from ratchet.common.git_push import FileChange, PushTarget, Remote, RemoteFile, commit_on
from ratchet.core.errors import GitError, RecordError
from ratchet.core.records.files import dumps, loads

TITLE = "perf: ratchet static record"


@dataclass(frozen=True)
class StaticChange:
    """The next static record of a branch. `push_file` calls it once per try."""

    remote: Remote
    target: PushTarget
    path: str
    recorded: Any
    """`records()["static"]`, of the measured commit."""

    def __call__(self, file: RemoteFile) -> FileChange | None:
        """Return the file; None where the branch has that of this commit or a later one. Raises GitError for a lost commit."""
        tree = self.recorded.tree
        commit = commit_on(self.remote, file.main, tree.commit, tree.content)
        if commit is None:
            raise GitError(f"{tree.commit[:10]} is no longer on {self.target.main}: its static record was dropped.", "")
        there = file.content if file.waiting is None else file.waiting
        with contextlib.suppress(RecordError):  # one that nobody can read is replaced
            if there and self.remote.is_ancestor(commit, loads(there, self.path, tools.records()["static"]).tree.commit):
                return None
        recorded = self.recorded.model_copy(update={"tree": tree.model_copy(update={"commit": commit})})
        skip = " [skip ci]" if self.target.mode == "push" else ""
        return FileChange(dumps(recorded).encode(), f"{TITLE} of {commit[:10]}{skip}")
