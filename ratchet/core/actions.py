"""Hand on what a job of GitHub Actions has to say: outputs and summary of its step, and a document to a webhook.

`ratchet.core.command_result`, `ratchet.core.cli.baseline` and `ratchet.github.cli` write the first two at the end, to the files
that GITHUB_OUTPUT and GITHUB_STEP_SUMMARY name; outside a workflow nothing is written. `ratchet notify` calls
`send_to_webhook`: one request over the network, to https alone, without a redirection.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ratchet.core.errors import OutputError, UnreachableError, UsageError
from ratchet.core.untrusted import clean

LARGEST_SUMMARY = 1_000_000
"""Bytes of one step's summary. GitHub accepts 1 MiB and shows nothing of a larger one."""
CONNECT_S, ANSWER_S = 5.0, 15.0
"""Seconds until there is a connection, and until each part of the answer."""


def write_outputs(values: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Set the step's outputs. A value may hold anything, for the line that ends it cannot be guessed. Raises OutputError."""
    pieces = []
    for name, value in values.items():
        end = f"end-{secrets.token_hex(16)}"
        pieces.append(f"{name}<<{end}\n{value}\n{end}\n")
    _append("GITHUB_OUTPUT", "".join(pieces), environ)


def append_summary(markdown: str, environ: Mapping[str, str]) -> None:
    """Add to the step's summary, cut to what GitHub accepts. Raises OutputError where the file cannot be written."""
    text = markdown.encode()[:LARGEST_SUMMARY].decode(errors="ignore")
    _append("GITHUB_STEP_SUMMARY", f"{text.rstrip()}\n", environ)


def send_to_webhook(address: str, document: Any) -> str:
    """Send one JSON document to an address that only its owner knows, such as an incoming webhook of Slack.

    Return the name of the host: no message of ours has more of the secret address than that. Raises UsageError for another
    address than https, UnreachableError.
    """
    import requests  # a twentieth of a second, which the commands that only write outputs do not need

    try:
        parts = urlsplit(address.strip())
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or parts.scheme != "https" or parts.username is not None:
        raise UsageError("The address of the webhook does not begin with https://, or is none.", "Correct the secret.")
    shown = clean(host, 80)
    try:
        # Not followed: the body would go to somebody else.
        with requests.post(
            address.strip(), json=document, timeout=(CONNECT_S, ANSWER_S), allow_redirects=False, stream=True
        ) as answer:
            status = answer.status_code
    except requests.Timeout:
        raise UnreachableError(f"The webhook at {shown} did not answer in time.", "Run the job again.") from None
    except (requests.RequestException, ValueError):  # their texts hold the address
        raise UnreachableError(f"There is no connection to the webhook at {shown}.", "Check its address.") from None
    if not 200 <= status < 300:
        raise UnreachableError(f"The webhook at {shown} answered {status}.", "Check its address, and that it still exists.")
    return shown


def _append(variable: str, text: str, environ: Mapping[str, str]) -> None:
    place = environ.get(variable)
    if not place or not text:
        return
    try:
        with Path(place).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        raise OutputError(
            f"{variable} ({place}) cannot be written: {error.strerror}.", f"Free some space, or unset {variable}; then run again."
        ) from None


def run_url(environ: Mapping[str, str]) -> str | None:
    """Return the address of the workflow run of this job; None outside a workflow."""
    parts = [environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else None
