"""Read a report through Nsight Compute's Python module: the package ``ncu-report``, or the one inside an installation.

`ratchet.profile.readers` calls it first. The module runs in a child process (`ncu_child`), which writes JSON to a temporary
folder. (Nsight Compute, Python Report Interface.)
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ratchet.errors import RecordError
from ratchet.profile.metrics import RawKernel, in_base_units
from ratchet.profile.ncu import Surroundings, newest, run, signal_name
from ratchet.profile.readers.ncu_child import NO_MODULE
from ratchet.records.profile import Rule

TIME_LIMIT_S = 120.0
"""A full report of a hundred launches takes a few seconds."""
_CHILD = Path(__file__).with_name("ncu_child.py")
_SCOPES = {1: "local", 2: "global"}
_ROOTS = (("/opt/nvidia/nsight-compute", "*"), ("/usr/local", "cuda*/nsight-compute*"))


def module_folders(ncu: Path | None) -> list[Path]:
    """Return where installations keep the module: beside ``ncu`` first, then in NVIDIA's usual places, the newest first."""
    roots = [ncu.resolve().parent, *ncu.resolve().parents] if ncu else []
    roots += [found for root, pattern in _ROOTS for found in newest(Path(root), pattern)]
    folders = [root / "extras" / "python" for root in roots]
    return [folder for folder in dict.fromkeys(folders) if (folder / "ncu_report.py").is_file()]


def read(path: Path, environ: Mapping[str, str], folder: Path | None = None) -> list[RawKernel] | None:
    """Return the launches of a report; None where the module is missing: the package, or the one in ``folder``.

    The module runs in a child process. Raises RecordError where it crashes, hangs or fails over the file.
    """
    with tempfile.TemporaryDirectory(prefix="ratchet-report-") as scratch:
        output = Path(scratch) / "report.json"
        command: list[str | Path] = [sys.executable, "-P", _CHILD, path.resolve(), output, *([folder] if folder else [])]
        ended = run(command, Surroundings(environ, Path(scratch), TIME_LIMIT_S))
        if ended.status == NO_MODULE:
            return None
        if ended.status is None:
            raise RecordError(f"{path} could not be read within {TIME_LIMIT_S:.0f} s: it is damaged, or far too large.", _AGAIN)
        if ended.status < 0:
            raise RecordError(
                f"{path} is damaged: Nsight Compute's module crashed over it ({signal_name(ended.status)}).", _AGAIN
            )
        if ended.status > 0:
            raise RecordError(f"{path} is not a report that Nsight Compute's module can read: {ended.last_line()}", _AGAIN)
        try:
            with output.open(encoding="utf-8") as lines:
                return [_kernel(json.loads(line)) for line in lines]
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            raise RecordError(f"{path} is damaged: what Nsight Compute's module reads in it makes no sense.", _AGAIN) from None


_LINK = re.compile(r"@(?P<kind>url|section|sass|source):(?P<words>[^:@]+):(?P<address>[^@]+)@")
_AGAIN = "Copy it again from where it was recorded, or profile again."


def _kernel(action: dict[str, Any]) -> RawKernel:
    metrics = {name: in_base_units(float(value), unit) for name, (value, unit) in action["metrics"].items()}
    return RawKernel(
        name=action["name"],
        metrics=metrics,
        texts=action["texts"],
        constant_moves=action["constant_moves"],
        rules=tuple(_rule(each) for each in action["rules"] if each["title"] or each["message"]),
    )


def _words_of_link(link: re.Match[str]) -> str:
    """Convert ``@url:words:https://…@`` to ``words (https://…)``, as ncu prints it; keep only one part of other links."""
    kind, words, address = link["kind"], link["words"], link["address"]
    return f"{words} ({address})" if kind == "url" else address if kind in ("section", "sass") else words


def _rule(rule: dict[str, Any]) -> Rule:
    speedup = rule["speedup"]
    return Rule.model_validate(
        {
            "name": rule["name"],
            "title": rule["title"],
            "message": _LINK.sub(_words_of_link, rule["message"]),
            "speedup_percent": speedup if speedup is not None and speedup >= 0 else None,
            "scope": _SCOPES.get(rule["scope"]),
        }
    )
