"""Commit the results of a search on the GPU machine to a branch, and open a draft pull request with it.

Runs on a trusted machine, in a clone of the branch that was tuned, with ratchet installed: ``propose.py ARTIFACT``. Only records
are taken from the artifact: they are read within limits and written again; tuned parameters and suggestions are made from them.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ratchet.core.config import load_settings
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.records.files import load, save
from ratchet.core.records.run import Policy
from ratchet.core.records.tuned import TUNED_FILE
from ratchet.core.untrusted import CELL, log_line, markdown
from ratchet.github.artifact import take_in_tuning
from ratchet.github.client import GitHub
from ratchet.tune.command import apply_tuning, write_suggestions
from ratchet.tune.records import TuningRecord, tuning_path

MOST_NAMED = 5
"""Cases in the title."""


def main() -> int:
    try:
        sys.stdout.write(f"{propose(Path(sys.argv[1]), Path.cwd())}\n")
    except RatchetError as error:
        sys.stderr.write(f"ratchet: {log_line(error)}\n")
        return int(error.exit_code)
    return 0


def propose(artifact: Path, clone: Path) -> str:
    """Return a sentence about the pull request. Raises RatchetError, before anything is pushed."""
    settings, github, base = load_settings(clone, os.environ, {}), GitHub.from_environ(os.environ), os.environ["BASE"]
    verdicts: list[tuple[str, str]] = []
    applied = False
    with tempfile.TemporaryDirectory(prefix="ratchet-artifact-", dir=os.environ.get("RUNNER_TEMP")) as workspace:
        record: TuningRecord
        for record in take_in_tuning(artifact, Path(workspace)):  # one at a time: together they may not fit into the memory
            path = tuning_path(clone / "tuning", record.case, record.environment.fingerprint)
            if path.exists() and load(path, TuningRecord) == record:
                continue
            _refuse_foreign(record, base, github)
            save(path, record)
            applied |= _apply(record, clone / settings.bench, settings.policy)
            verdicts.append((record.case, record.verdict))
    if not verdicts:
        return "The branch has these results already: there is nothing to propose."
    write_suggestions(clone / "tuning")
    attempt = os.environ.get("GITHUB_RUN_ATTEMPT", "1")  # the branch of an earlier one holds another commit
    branch = f"ratchet/tune-{os.environ['GITHUB_RUN_ID']}{f'-{attempt}' if attempt != '1' else ''}"
    cases = sorted({case for case, _ in verdicts})
    title = f"tune: {', '.join(cases[:MOST_NAMED])}{' and more' if len(cases) > MOST_NAMED else ''}"
    _git("add", "--", "tuning", *([f"{settings.bench}/{TUNED_FILE}"] if applied else []))
    _git("commit", "--quiet", "--message", title)
    _git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
    lines = "\n".join(f"- `{case}`: {markdown(verdict, CELL)}" for case, verdict in verdicts)
    body = f"What the search recommends:\n\n{lines}\n\nAll of it is in `tuning/suggestions.md`."
    return f"{github.open_pull(title, body, branch, base, draft=True).url}: {title}"


def _refuse_foreign(record: TuningRecord, base: str, github: GitHub) -> None:
    """Raise UsageError for a search of a commit that is not on the branch: its parameters say nothing about the code there."""
    if github.holds(base, record.head.commit) is not True:
        raise UsageError(
            f"The search of {record.case} is of {record.head.commit[:10] or 'no commit'}, which is not on {base}.",
            "Start the workflow again on the branch that is to be tuned.",
        )


def _apply(record: TuningRecord, bench: Path, policy: Policy) -> bool:
    """Write the parameters that a record recommends, if its own comparisons support them; return whether they do."""
    try:
        return bool(record.best and apply_tuning([record], bench, policy))
    except UsageError:
        return False


def _git(*words: str) -> str:
    options = ["-c", "user.name=ratchet", "-c", "user.email=ratchet@localhost", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(["git", *options, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"git {words[0]} failed: {done.stderr.strip()[-300:]}", "See the rules of the repository's branches.")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
