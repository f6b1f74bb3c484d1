"""Every error that a user can meet: what happened, where, and what to do.

Raised where something fails; `ratchet.core.cli.main` alone turns one into text and an exit code. Pure.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    PASS = 0
    REGRESSION = 1
    USAGE = 2
    NOT_MEASURED = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells expect


class RatchetError(Exception):
    """An error with one sentence for the user; ``hint`` says what to do."""

    exit_code: Exit = Exit.NOT_MEASURED
    section: str = ""
    """The section of docs/troubleshooting.md that says more."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(RatchetError):
    """The command, an option or the configuration is wrong."""

    exit_code = Exit.USAGE


class RecordError(RatchetError):
    """A file of ours cannot be read: truncated, edited, of a newer schema, or with impossible values."""

    exit_code = Exit.USAGE
    section = "files-and-records"


class ArtifactError(RatchetError):
    """An artifact of another job is unsafe, damaged, or contradicts itself."""

    section = "on-github"


class OutputError(RatchetError):
    """A result cannot be written: read-only folder, full disk."""

    section = "files-and-records"


class GitError(RatchetError):
    """git is missing, or refuses what a comparison needs."""

    section = "a-tree-cannot-be-loaded"


class DamageError(RatchetError):
    """The user's repository changed while foreign code ran, and cannot be restored."""

    section = "files-and-records"


class BusyError(RatchetError):
    """Another check holds the device."""

    section = "the-machine-is-not-fit"


class UnfitError(RatchetError):
    """This machine cannot give a trustworthy measurement now."""

    section = "the-machine-is-not-fit"


class IncompleteError(RatchetError):
    """A shard of a run is missing."""


class BuildError(RatchetError):
    """The build command failed in one tree."""

    section = "a-tree-cannot-be-loaded"


class FingerprintError(RatchetError):
    """Times from different machines or software were about to be compared."""

    section = "files-and-records"


class HostError(RatchetError):
    """The process that serves one tree did not start, died, or broke the protocol."""

    section = "a-tree-cannot-be-loaded"


class WorkerError(RatchetError):
    """A worker crashed, hung, ran out of memory or broke the protocol: one case fails, never the run."""

    section = "the-machine-is-not-fit"


class ForeignModuleError(RatchetError):
    """A module of the repository was loaded from outside its tree, so the tree was not what ran."""

    section = "a-tree-cannot-be-loaded"


class CudaBuildError(RatchetError):
    """nvcc is missing or rejected a source."""

    section = "a-tree-cannot-be-loaded"


class PageError(RatchetError):
    """A figure cannot be drawn: matplotlib is missing."""


class TraceError(RatchetError):
    """A script or a case cannot be traced: it fails, or never ends."""


class ForgeError(RatchetError):
    """A call of GitHub's API failed."""

    section = "on-github"


class TokenError(ForgeError):
    """The token is invalid or lacks a permission (401, 403)."""

    exit_code = Exit.USAGE


class LimitedError(ForgeError):
    """GitHub's rate limit holds for longer than we wait."""


class GoneError(ForgeError):
    """Nothing is there, or the token may not see it (404, 410)."""


class RefusedError(ForgeError):
    """GitHub refuses a valid request (409, 422)."""


class LockedError(RefusedError):
    """The conversation is locked, and takes no comment of ours."""


class UnreachableError(ForgeError):
    """GitHub cannot be reached, or its answer makes no sense: 5xx, a timeout, a cut connection."""
