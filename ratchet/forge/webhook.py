"""Send one JSON document to an address that only its owner knows, such as an incoming webhook of Slack.

`ratchet notify` calls it. The address is a secret: no message of ours has more of it than the name of the host. One request over
the network, to https alone, without a redirection.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests

from ratchet.errors import UnreachableError, UsageError
from ratchet.untrusted import clean

CONNECT_S, ANSWER_S = 5.0, 15.0
"""Seconds until there is a connection, and until each part of the answer."""


def send(address: str, document: Any) -> str:
    """Send a document. Return the name of the host. Raises UsageError for another address than https, UnreachableError."""
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
