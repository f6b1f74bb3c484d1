"""The environment variables that a repository's own code may see."""

from __future__ import annotations

from collections.abc import Mapping

_PRIVATE = ("GITHUB_", "ACTIONS_", "RUNNER_")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Everything but what a CI runner uses to talk to itself: its tokens, and the files that set its outputs."""
    return {name: value for name, value in environ.items() if not name.startswith(_PRIVATE)}
