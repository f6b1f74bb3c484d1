"""Take what the verdict depends on from the base branch: thresholds, folder of the baseline, in the mode `branch` the file too.

All of it comes from the settings of the base branch and from this job's variables, never from the measured commit. The steps
after this get settings as ``RATCHET_…`` variables, and the baseline where the measuring command looks for it. Branches are as
the checkout fetched them, with `fetch-depth: 0`, so this needs no credentials. It runs in ratchet's venv.
"""

import json
import os
import sys
from pathlib import Path

from ratchet.core.config import Settings, settings_from
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.git import Repository
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import dumps, save_bytes
from ratchet.core.untrusted import log_line
from ratchet.github.judge_again import origin_of_thresholds

FETCHED = "refs/remotes/origin"
DECIDING = (
    *("regression_threshold", "improvement_threshold", "confidence", "false_alarm", "on_inconclusive", "mute", "gates"),
    "results",
)
"""Settings that the trusted job judges by too, and the folder where both look for the baseline."""


def base_settings(clone: Repository, base: str) -> tuple[Settings, str]:
    """Return the settings of the base branch, of the checkout where that branch was not fetched, and a sentence about them.

    Raises UsageError for settings that cannot be read.
    """
    branch = f"{FETCHED}/{base}"
    commit = clone.hash_of(f"{branch}^{{commit}}")
    name = f"pyproject.toml of {base}" if commit else "pyproject.toml of this checkout"
    content = clone.file_in(commit, "pyproject.toml") if commit else _own(clone.root / "pyproject.toml")
    text = (content or b"").decode("utf-8", "replace")
    settings = settings_from(text, name, os.environ, {})
    place = f"{name} at {commit[:10]}" if commit else f"{name}, since it has no {base}"
    return settings, f"{origin_of_thresholds(settings, text, place, os.environ, {})}."


def variables(settings: Settings) -> str:
    """Return the lines for the file ``GITHUB_ENV``. Raises UsageError for a value that would be more than one line."""
    values = {name: str(getattr(settings, name)) for name in DECIDING}
    values["mute"] = json.dumps([mute.model_dump(mode="json") for mute in settings.mute])
    values["gates"] = json.dumps(settings.gates)
    if wrong := next((name for name, value in values.items() if not value.isprintable()), None):
        raise UsageError(f"{wrong} in [tool.ratchet] holds a control character.", "Write it without.")
    return "".join(f"RATCHET_{name.upper()}={value}\n" for name, value in values.items())


def place_baseline(clone: Repository, settings: Settings) -> str:
    """Put the file in place, an empty one if its branch has none; return a sentence about it, empty in the other modes.

    Raises UsageError for a folder outside the checkout, GitError where git refuses.
    """
    if settings.baseline_mode != "branch":
        return ""
    branch = f"{FETCHED}/{settings.baseline_branch}"
    if not clone.hash_of(f"{branch}^{{tree}}"):
        return f"There is no branch {settings.baseline_branch} yet: the baseline of this checkout is taken."
    name = f"{settings.results}/baseline.json"
    path = clone.root / name
    if not path.parent.resolve().is_relative_to(clone.root.resolve()):
        raise UsageError(f"{name} leads out of the checkout.", "Set results in [tool.ratchet] to a folder of the repository.")
    content = clone.file_in(branch, name)
    save_bytes(path, dumps(Baseline()).encode() if content is None else content)
    return f"{name} is that of {settings.baseline_branch}{', which has none yet' if content is None else ''}."


def _own(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def main() -> int:
    base = os.environ["BASE_BRANCH"].removeprefix("refs/heads/")
    try:
        clone = Repository(Path.cwd())
        settings, origin = base_settings(clone, base)
        lines, placed = variables(settings), place_baseline(clone, settings)
    except RatchetError as error:
        sys.stdout.write(f"::error title=ratchet::{log_line(str(error))}\n")
        return int(error.exit_code)
    with Path(os.environ["GITHUB_ENV"]).open("a", encoding="utf-8") as file:
        file.write(lines)
    sys.stdout.writelines(f"{log_line(sentence)}\n" for sentence in (origin, placed) if sentence)
    return 0


if __name__ == "__main__":
    sys.exit(main())
