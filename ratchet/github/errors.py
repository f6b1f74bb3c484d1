"""Errors of the trusted job: an artifact that may not be judged, and what GitHub's API refuses."""

from __future__ import annotations

from ratchet.core.errors import Exit, RatchetError


class ArtifactError(RatchetError):
    """An artifact of another job is unsafe, damaged, or contradicts itself."""

    section = "on-github"


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
