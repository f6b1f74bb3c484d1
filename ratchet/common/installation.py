"""Say which commit of ratchet runs, as pip and uv write it down: the manual and what `ratchet init` writes link to it."""

from __future__ import annotations

import importlib.metadata
import json


def installed_commit() -> str:
    """Return the commit that this ratchet was installed from, as pip and uv write it down; empty where nobody knows."""
    source = installed_from().get("vcs_info")
    return str(source.get("commit_id", "")) if isinstance(source, dict) else ""


def installed_from() -> dict[str, object]:
    """Return what pip or uv wrote down of the place that this ratchet was installed from (PEP 610); empty where nobody did."""
    try:
        about = json.loads(importlib.metadata.distribution("gpu-ratchet").read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}
