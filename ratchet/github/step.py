"""Tell GitHub Actions about the trusted job: the outputs of its step, and the address of its run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ratchet.core.actions import append_to


def write_outputs(values: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Set the step's outputs. A value may hold anything, for the line that ends it cannot be guessed. Raises OutputError."""
    pieces = []
    for name, value in values.items():
        end = f"end-{secrets.token_hex(16)}"
        pieces.append(f"{name}<<{end}\n{value}\n{end}\n")
    append_to("GITHUB_OUTPUT", "".join(pieces), environ)


def run_url(environ: Mapping[str, str]) -> str | None:
    """Return the address of the workflow run of this job; None outside a workflow."""
    parts = [environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else None
