"""Every error a user can meet. Each says what is wrong, where, and what to do; the command line turns it into an exit code."""

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
    """An error with one sentence for the user. ``hint`` says what to do about it."""

    exit_code: Exit = Exit.NOT_MEASURED

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
    """A file of ours cannot be read: truncated, edited, of a newer schema, or with values that cannot be."""

    exit_code = Exit.USAGE


class ArtifactError(RatchetError):
    """What another job handed over cannot be believed: unsafe, damaged, or contradicting itself."""


class OutputError(RatchetError):
    """A result cannot be written: read-only folder, full disk."""


class GitError(RatchetError):
    """git is missing, or refuses what a comparison needs."""


class DamageError(RatchetError):
    """The user's repository changed while code that is not ours ran, and cannot be put back."""


class BusyError(RatchetError):
    """Another check holds the device."""


class UnfitError(RatchetError):
    """The machine cannot give a trustworthy measurement now."""


class IncompleteError(RatchetError):
    """A part of what is to be judged together is missing."""


class BuildError(RatchetError):
    """The build command failed in one tree."""


class FingerprintError(RatchetError):
    """Times from different machines or software were about to be compared."""


class HostError(RatchetError):
    """The process that serves one tree did not start, died, or spoke nonsense."""


class WorkerError(RatchetError):
    """A worker crashed, hung, ran out of memory or spoke nonsense: it costs one case, never the run."""


class ForeignModuleError(RatchetError):
    """A module of the repository was loaded from outside its tree, so the tree was not what ran."""


class CudaBuildError(RatchetError):
    """nvcc is missing or rejected a source."""


class PageError(RatchetError):
    """A picture cannot be drawn: matplotlib is missing."""


class ForgeError(RatchetError):
    """GitHub does not do what it was asked."""


class TokenError(ForgeError):
    """The token is not valid, or its rights do not suffice (401, 403)."""

    exit_code = Exit.USAGE


class LimitedError(ForgeError):
    """A rate limit of GitHub's, and it ends too late to wait for."""


class GoneError(ForgeError):
    """What was asked for is not there, or the token may not see it (404, 410)."""


class RefusedError(ForgeError):
    """GitHub understood, and refuses (409, 422)."""


class UnreachableError(ForgeError):
    """GitHub cannot be reached, or answers nonsense: 5xx, a time-out, a cut connection."""
