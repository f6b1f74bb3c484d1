"""In the mode `branch`, put the baseline from its own branch where the measuring command looks for it.

Mode, branch and folder come from the settings of the base branch and from this job's variables, never from the measured commit.
Both branches are as the checkout fetched them, with `fetch-depth: 0`, so this needs no credentials. It runs in ratchet's venv.
"""

import os
import sys
from pathlib import Path

from ratchet.config import Settings, settings_from
from ratchet.errors import RatchetError, UsageError
from ratchet.forge.git import Repository
from ratchet.records.baseline import Baseline
from ratchet.records.files import dumps, save_bytes
from ratchet.untrusted import log_line

FETCHED = "refs/remotes/origin"


def place_baseline(clone: Repository, base: str) -> str:
    """Put the file in place, an empty one if that branch has none; return a sentence about it, empty in the other modes.

    Raises UsageError for settings that cannot be read or a folder outside the checkout, GitError where git refuses.
    """
    settings = _settings(clone, base)
    if settings.baseline_mode != "branch":
        return ""
    branch = f"{FETCHED}/{settings.baseline_branch}"
    if clone.tree_of(branch) is None:
        return f"There is no branch {settings.baseline_branch} yet: the baseline of this checkout is taken."
    name = f"{settings.results}/baseline.json"
    path = clone.root / name
    if not path.parent.resolve().is_relative_to(clone.root.resolve()):
        raise UsageError(f"{name} leads out of the checkout.", "Set results in [tool.ratchet] to a folder of the repository.")
    content = clone.file_in(branch, name)
    save_bytes(path, dumps(Baseline()).encode() if content is None else content)
    return f"{name} is that of {settings.baseline_branch}{', which has none yet' if content is None else ''}."


def _settings(clone: Repository, base: str) -> Settings:
    content = clone.file_in(f"{FETCHED}/{base}", "pyproject.toml") or b""
    return settings_from(content.decode("utf-8", "replace"), f"pyproject.toml of {base}", os.environ, {})


def main() -> int:
    base = os.environ["BASE_BRANCH"].removeprefix("refs/heads/")
    try:
        sentence = place_baseline(Repository(Path.cwd()), base)
    except RatchetError as error:
        sys.stdout.write(f"::error title=ratchet::{log_line(str(error))}\n")
        return int(error.exit_code)
    sys.stdout.write(f"{log_line(sentence)}\n" if sentence else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
