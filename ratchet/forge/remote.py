"""Branches of a remote repository: fetched beside the work tree, which stays as it is, and moved forward only."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.errors import GitError
from ratchet.forge.answers import Answer, answer_of, last_words, without_passwords
from ratchet.forge.git import Repository
from ratchet.records.files import save_bytes

_IDENTITY = {
    f"GIT_{role}_{part}": text
    for role in ("AUTHOR", "COMMITTER")
    for part, text in (("NAME", "ratchet"), ("EMAIL", "ratchet@localhost"))
}
_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.hooksPath=/dev/null")
_BOUNDED = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
"""A connection over which nothing comes for a minute is dead."""


@dataclass(frozen=True)
class Tip:
    """A branch of the remote as it was fetched."""

    branch: str
    commit: str


class Remote(Repository):
    """A clone and one of its remotes. Every method raises GitError with a sentence, in which no address shows a password."""

    def __init__(self, folder: Path, name: str = "origin") -> None:
        super().__init__(folder)
        self.name = name
        if self._try("remote", "get-url", "--", name).returncode != 0:
            raise GitError(f"{self.root} has no remote {name}.", "Name another one, or add it with `git remote add`.")

    def branch(self) -> str:
        """The branch that is checked out; empty where none is."""
        return self._try("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()

    @contextlib.contextmanager
    def fetched(self, branches: Sequence[str]) -> Iterator[dict[str, Tip]]:
        """The branches as they are on the remote now, those that it has; their commits stay until the block ends."""
        place = f"refs/ratchet/{secrets.token_hex(8)}"
        there = [branch for branch in dict.fromkeys(branches) if branch in self._listed(branches)]
        refs = {branch: f"{place}/{number}" for number, branch in enumerate(there)}
        try:
            if refs:
                wanted = [f"+refs/heads/{branch}:{ref}" for branch, ref in refs.items()]
                self._over_the_wire("fetch", "--no-write-fetch-head", *wanted)
            yield {branch: Tip(branch, self._run("rev-parse", "--verify", ref)) for branch, ref in refs.items()}
        finally:
            for ref in refs.values():
                self._try("update-ref", "-d", ref)

    def commit_file(self, base: str | None, parents: Sequence[str], path: str, content: bytes, message: str) -> str:
        """A commit of the content of ``base`` (None: of nothing) with this one file changed. No branch knows of it yet."""
        with tempfile.TemporaryDirectory(prefix="ratchet-push-") as folder:
            save_bytes(Path(folder, "content"), content)
            blob = self._run("hash-object", "-w", "--no-filters", str(Path(folder, "content")))
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._run("read-tree", *([base] if base else ["--empty"]), extra=index)
            self._run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", extra=index)
            tree = self._run("write-tree", extra=index)
        given = [word for parent in parents for word in ("-p", parent)]
        return self._run("commit-tree", tree, *given, "-m", message, extra={} if self.user() else _IDENTITY)

    def push(self, commit: str, branch: str) -> tuple[Answer, str]:
        """Move a branch forward to a commit, never by force; what the remote answered, and its words."""
        words = ("push", "--porcelain", "--no-verify", "--", self.name, f"{commit}:refs/heads/{branch}")
        done = self._try(*_QUIET, *_BOUNDED, *words)
        if done.returncode == 0:
            return Answer.TAKEN, ""
        said = without_passwords(f"{done.stdout}\n{done.stderr}")
        return answer_of(said), last_words(said)

    def is_ancestor(self, commit: str, tip: str) -> bool:
        """Whether ``tip`` is ``commit`` or comes after it; False also for a commit that this clone does not have."""
        return self._try("merge-base", "--is-ancestor", commit, tip).returncode == 0

    def first_parents(self, before: str, commit: str, most: int = 50) -> list[str]:
        """What a push brought to its branch, newest first, without what was merged in; the commit alone where nobody can tell."""
        if not self.is_ancestor(before, commit):
            return [commit]
        return self._run("rev-list", "--first-parent", f"--max-count={most}", f"{before}..{commit}", "--").split() or [commit]

    def deepen(self) -> None:
        """The whole history, where the clone is shallow."""
        if self.is_shallow():
            self._over_the_wire("fetch", "--unshallow")

    def commit_with_tree(self, tree: str, tip: str) -> str | None:
        """The newest commit up to ``tip`` with exactly this content."""
        for line in self._run("log", "--no-show-signature", "--format=%H %T", tip, "--").splitlines():
            commit, _, content = line.partition(" ")
            if content == tree:
                return commit
        return None

    def _listed(self, branches: Sequence[str]) -> set[str]:
        lines = self._over_the_wire("ls-remote", *(f"refs/heads/{branch}" for branch in branches)).splitlines()
        return {line.partition("\trefs/heads/")[2] for line in lines}

    def _over_the_wire(self, command: str, *words: str) -> str:
        flags = ("--quiet", "--no-tags", "--no-recurse-submodules") if command == "fetch" else ()
        named = [word for word in words if word.startswith("--")]
        done = self._try(*_QUIET, *_BOUNDED, command, *flags, *named, "--", self.name, *(w for w in words if w not in named))
        if done.returncode != 0:
            said = last_words(without_passwords(done.stderr))
            raise GitError(f"git {command} from {self.name} failed: {said}.", "Check the network and the token, then run again.")
        return done.stdout
