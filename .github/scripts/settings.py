"""Write the inputs of our actions as ratchet's settings: ``RATCHET_…`` variables in the file ``GITHUB_ENV``.

Thresholds are written as changes in percent, as in ``REGRESSION_THRESHOLD: -3.0``. Standard library only: this runs before
anything is installed.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath


class Wrong(Exception):
    """An input is not valid; the text is one sentence."""


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set. Raises Wrong for the first input that is not valid."""
    variables = {
        "RATCHET_REGRESSION_THRESHOLD": _percent(given, "THRESHOLD", sign=-1),
        "RATCHET_IMPROVEMENT_THRESHOLD": _percent(given, "IMPROVEMENT", sign=1),
        "RATCHET_RESULTS": _results(given.get("BASELINE", "")),
        "RATCHET_ON_INCONCLUSIVE": _on_inconclusive(given.get("FAIL_ON", "")),
        "RATCHET_BUILD": given.get("BUILD", ""),
        "RATCHET_DEVICE": given.get("DEVICE", ""),
    }
    if given.get("COMMAND", "check") == "check":
        variables["RATCHET_BUDGET"] = given.get("BUDGET", "")
    for name, value in variables.items():
        if any(ord(character) < 32 for character in value):
            raise Wrong(f"The value for {name} holds a line break or another control character.")
    return {name: value for name, value in variables.items() if value}


def _percent(given: Mapping[str, str], name: str, sign: int) -> str:
    text = given.get(name, "").strip().removesuffix("%").strip()
    if not text:
        return ""
    if not re.fullmatch(r"[+-]?\d{1,2}(\.\d{1,6})?", text) or float(text) * sign <= 0:
        example = "-3.0 for 3 % slower" if sign < 0 else "5.0 for 5 % less time"
        raise Wrong(f"{name.lower()} is no change in percent: write {example}.")
    return f"{text.lstrip('+-')}%"


def _results(baseline: str) -> str:
    if not baseline:
        return ""
    path = PurePosixPath(baseline)
    if path.is_absolute() or ".." in path.parts or path.name != "baseline.json" or len(path.parts) < 2:
        raise Wrong("baseline is a path in the repository that ends in /baseline.json, such as results/baseline.json.")
    return path.parent.as_posix()


def _on_inconclusive(fail_on: str) -> str:
    meanings = {"": "", "regression": "pass", "never": "pass", "inconclusive": "fail"}
    if fail_on not in meanings:
        raise Wrong("fail-on is regression, inconclusive or never.")
    return meanings[fail_on]


def main() -> int:
    try:
        variables = settings(os.environ)
    except Wrong as wrong:
        sys.stdout.write(f"::error title=ratchet::{wrong}\n")
        return 2
    with Path(os.environ["GITHUB_ENV"]).open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in variables.items())
    sys.stdout.writelines(f"{name.removeprefix('RATCHET_').lower()} = {value}\n" for name, value in variables.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
