"""Commit the results of a search on the GPU machine to a branch, and open a draft pull request with it.

Runs on a trusted machine, in a clone of the branch that was tuned, with ratchet installed: ``propose.py ARTIFACT``. Only records
are taken from the artifact: they are parsed and written again, and the suggestions are rendered from them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from ratchet.commands.tune.tune import remove_pictures, render_again
from ratchet.config import load_settings
from ratchet.errors import RatchetError, UsageError
from ratchet.forge.github import GitHub
from ratchet.records.files import load, save
from ratchet.records.tuning import TUNED_FILE, Tuned, TuningRecord, tuning_path
from ratchet.untrusted import CELL, markdown

MOST_RECORDS = 50
LARGEST = 64 * 2**20
"""Bytes of one record."""


def main() -> int:
    try:
        sys.stdout.write(f"{propose(Path(sys.argv[1]), Path.cwd())}\n")
    except RatchetError as error:
        sys.stderr.write(f"ratchet: {error}\n")
        return int(error.exit_code)
    return 0


def propose(artifact: Path, clone: Path) -> str:
    """Return a sentence about the pull request. Raises RatchetError."""
    records = [record for record in _records(artifact / "tuning") if _is_new(record, clone / "tuning")]
    if not records:
        return "The branch has these results already: there is nothing to propose."
    settings = load_settings(clone, os.environ, {})
    for record in records:
        path = tuning_path(clone / "tuning", record.case, record.environment.fingerprint)
        save(path, record)
        remove_pictures(path)
    render_again(clone / "tuning")
    paths = ["tuning"]
    tuned = _plain(artifact / TUNED_FILE)
    if tuned and any(record.best for record in records):
        paths.append(f"{settings.bench}/{TUNED_FILE}")
        save(clone / settings.bench / TUNED_FILE, load(tuned, Tuned))
    branch = f"ratchet/tune-{os.environ['GITHUB_RUN_ID']}"
    cases = sorted({record.case for record in records})
    title = f"tune: {', '.join(cases)}"
    _git("add", "--", *paths)
    _git("commit", "--quiet", "--message", title)
    _git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
    verdicts = "\n".join(f"- `{record.case}`: {markdown(record.verdict, CELL)}" for record in records)
    body = f"What the search recommends:\n\n{verdicts}\n\nAll of it is in `tuning/suggestions.md`."
    pull = GitHub.from_environ(os.environ).open_pull(title, body, branch, os.environ["BASE"], draft=True)
    return f"{pull.url}: {title}"


def _records(folder: Path) -> list[TuningRecord]:
    paths = sorted(folder.glob("*.json"))[: MOST_RECORDS + 1]
    if not paths:
        raise UsageError("The artifact holds no record of a search.", "See the log of the job that tuned.")
    if len(paths) > MOST_RECORDS:
        raise UsageError(f"The artifact holds more than {MOST_RECORDS} records.", "Tune fewer cases at once.")
    records = [load(path, TuningRecord) for path in filter(None, map(_plain, paths))]
    for record in records:
        if not re.fullmatch(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)?", record.case):
            raise UsageError("A record in the artifact has an impossible case name.", "Tune again.")
    return records


def _is_new(record: TuningRecord, folder: Path) -> bool:
    path = tuning_path(folder, record.case, record.environment.fingerprint)
    return not path.exists() or load(path, TuningRecord) != record


def _plain(path: Path) -> Path | None:
    return path if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST else None


def _git(*words: str) -> str:
    options = ["-c", "user.name=ratchet", "-c", "user.email=ratchet@localhost", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(["git", *options, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"git {words[0]} failed: {done.stderr.strip()[-300:]}", "See the rules of the repository's branches.")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
