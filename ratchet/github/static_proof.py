"""Join what a job without a GPU proved with what was measured, for `ratchet ci publish`: nothing is believed that can be seen.

The job ran code of the pull request. So its word decides one thing alone, what a kernel with another body compiles to, and even
that is held against the record that the reference commit has. Whether a case touches anything that differs is seen here again,
from the trees that GitHub has: folders whose hashes are equal are equal, and of the files that differ only Python is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ratchet import tools
from ratchet.core.config import Settings
from ratchet.core.errors import RecordError
from ratchet.core.records.files import loads
from ratchet.core.records.run import RunRecord
from ratchet.core.units import listed
from ratchet.github.artifact import STATIC, STATIC_REPORT, Intake, take_in_beside
from ratchet.github.errors import ArtifactError
from ratchet.github.state import Gap, PublishedState

if TYPE_CHECKING:  # PyGithub is an extra, and `ratchet ci push` does without it
    from ratchet.github.client import GitHub

MOST_FILES = 500
"""Files that are fetched from GitHub: each is one question."""
LARGEST_FILE = 2**20
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_LINK, _PROGRAM, _FOLDER = "120000", "100755", "040000"
"""Modes of git."""


def with_proofs(
    place: Path, measured: Intake | None, head: str, settings: Settings, github: GitHub, workspace: Path
) -> tuple[Intake, tuple[Gap, ...]]:
    """Return the run of the cases that were measured and of those that are proved here, and why it is no pass.

    ``place`` is the artifact of the job without a GPU, ``settings`` are the base branch's. Raises ArtifactError or RecordError
    where there is nothing to judge.
    """
    try:
        recorded, report = _proof(place, measured.run if measured else None, head, settings, github, workspace)
    except (ArtifactError, RecordError) as error:
        if measured is None:
            raise
        # The job on the GPU measured what the other one left to it, and nobody knows here what that should have been.
        return measured, (Gap(PublishedState.LEFT_OUT, f"Nothing was proved without a GPU: {error.message}"),)
    names = {case.name for case in measured.run.cases} if measured else set()
    left = [name for name in report.needed if name not in names]
    if measured is None and left:
        raise ArtifactError(f"The job on the GPU left no results, and it is needed for {listed(left)}.", "Its log says why.")
    run = tools.part("static_evidence").joined(measured.run if measured else None, recorded, report, settings.policy)
    why = f"Neither measured nor proved without a GPU: {listed(left)}."
    gaps = (Gap(PublishedState.LEFT_OUT, why, len(left)),) if left else ()
    return replace(measured or Intake(run), run=run), gaps


def _proof(
    place: Path, measured: RunRecord | None, head: str, settings: Settings, github: GitHub, workspace: Path
) -> tuple[Any, Any]:
    """Return the record of the reference, and the report that it gives. Raises ArtifactError."""
    claimed = take_in_beside(place, STATIC_REPORT, workspace)
    if claimed is None:
        raise ArtifactError(f"The artifact has no {STATIC_REPORT}: the job without a GPU wrote none.", "Its log says why.")
    reference = claimed.reference.commit
    if not _COMMIT.fullmatch(reference):
        raise ArtifactError("The static report names no commit that it compared with.")
    if claimed.head.commit != head:
        raise ArtifactError(f"The static report is of {claimed.head.commit[:10] or 'no commit'}, not of {head[:10]}.")
    if measured and (measured.reference is None or measured.reference.commit != reference):
        raise ArtifactError(f"The GPU compared with another commit than {reference[:10]}, that of the static report.")
    if settings.build:
        raise ArtifactError("A build command may write what nobody can compare here: leave out `static`.")
    path = str(PurePosixPath(settings.results, STATIC))
    content = github.file_at(path, reference)
    if content is None:
        raise ArtifactError(f"{reference[:10]} has no {path}.", "Let the workflow of main write one: `static: true`.")
    evidence = tools.part("static_evidence")
    recorded = loads(content, f"{path} of {reference[:10]}", tools.records()["static"])
    folders = {evidence.BASE: recorded.tree.commit, evidence.FOLDERS["reference"]: reference, evidence.FOLDERS["head"]: head}
    DifferingTrees(github, folders, workspace).write()
    return recorded, evidence.proven(recorded, claimed, workspace, settings.bench, settings.results)


class DifferingTrees:
    """Folders that differ from each other as the trees of some commits do; what is the same in all of them is left out."""

    def __init__(self, github: GitHub, commits: Mapping[str, str], into: Path) -> None:
        self._github, self._commits, self._into = github, commits, into
        self._fetched = 0

    def write(self) -> None:
        """Write them. Raises ArtifactError for more files than may be, and for names that lead out."""
        self._folder("", self._commits)

    def _folder(self, path: str, trees: Mapping[str, str]) -> None:
        """Write a folder of those commits that have it; ``trees`` are their hashes."""
        listings = {name: self._github.entries(tree) for name, tree in trees.items()}
        for name in trees:
            Path(self._into, name, path).mkdir(parents=True)
        for entry in sorted({entry for listing in listings.values() for entry in listing}):
            here = {name: listing[entry] for name, listing in listings.items() if entry in listing}
            if len(here) == len(self._commits) and len(set(here.values())) == 1:
                continue
            if entry in ("", ".", "..", ".git") or "/" in entry or "\0" in entry:
                raise ArtifactError("A tree has a name that git does not allow.")
            below = f"{path}/{entry}" if path else entry
            for name, (mode, sha) in here.items():
                if mode != _FOLDER:
                    self._file(name, below, mode, sha)
            if folders := {name: sha for name, (mode, sha) in here.items() if mode == _FOLDER}:
                self._folder(below, folders)

    def _file(self, name: str, path: str, mode: str, sha: str) -> None:
        """Write a file. Where its content does not matter, or is too large to be looked at, its hash stands for it."""
        place = Path(self._into, name, path)
        if mode == _LINK:
            place.symlink_to(sha)
            return
        content = sha.encode()
        if path.endswith((".py", "pyproject.toml")):
            self._fetched += 1
            if self._fetched > MOST_FILES:
                raise ArtifactError(f"More than {MOST_FILES} files of Python differ from the static record.")
            found = self._github.file_at(path, self._commits[name])
            content = found if found is not None and len(found) <= LARGEST_FILE else content
        place.write_bytes(content)
        place.chmod(0o755 if mode == _PROGRAM else 0o644)
