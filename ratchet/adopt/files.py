"""Plan the files that `ratchet init` writes: additions to pyproject.toml and .gitignore, the first benchmark, the workflows.

Pure but for the templates beside this file. Nothing that is there is changed:
a file gets lines at its end, or is left alone.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.common.installation import installed_commit
from ratchet.core.errors import UsageError

TEMPLATES = {path.name: path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "workflows").glob("*.yml"))}
"""Name → text of each workflow, with words in capitals to replace: see `WorkflowValues.fill`."""
WORKFLOW_FOLDER = ".github/workflows"
_GITHUB = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@([0-9a-f]{40})")


@dataclass(frozen=True)
class PlannedFile:
    """A file as it is (None: not there), and as it shall be."""

    path: str
    old: str | None
    new: str

    def diff(self) -> str:
        """Return the change as a unified diff; empty if there is none."""
        before, after = ((self.old or "").splitlines(keepends=True), self.new.splitlines(keepends=True))
        name = f"a/{self.path}" if self.old is not None else "/dev/null"
        lines = difflib.unified_diff(before, after, name, f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True)
class WorkflowValues:
    """The values that differ from one repository's workflows to the next."""

    repository: str
    """Where ratchet is on GitHub: owner and name."""
    commit: str
    labels: str
    """Labels of the GPU machine as JSON, or one label."""
    python: str
    branch: str
    """The default branch."""

    def fill(self, template: str) -> str:
        """Return a template with these values."""
        words = {
            "RATCHET_REPOSITORY": self.repository,
            "RATCHET_COMMIT": self.commit,
            "RUNNER_LABELS": self.labels,
            "RUNNER_PYTHON": self.python,
            "DEFAULT_BRANCH": json.dumps(self.branch),  # one called true is no boolean
        }
        return re.sub(rf"\b({'|'.join(words)})\b", lambda found: words[found[1]], template)

    @classmethod
    def read(cls, text: str, branch: str) -> WorkflowValues | None:
        """Return the values that a filled workflow has; None where it calls no workflow of ratchet.

        ``branch`` is the default branch, for the workflows that do not name it.
        """
        uses = re.search(r"uses: *([\w.-]+/[\w.-]+)/\.github/workflows/\w+\.yml@(\S+)", text)
        if not uses:
            return None
        labels = re.search(r"^ +runner: '(.*)'$", text, re.MULTILINE)
        python = re.search(r"^ +python: (\S+)$", text, re.MULTILINE)
        branches = re.search(r'^ +branches: \["?([^"\],]+)"?\]$', text, re.MULTILINE)
        found = branches[1] if branches else branch
        return cls(uses[1], uses[2], labels[1] if labels else "", python[1] if python else "", found)


def workflow_values(github: str, labels: str, python: str, branch: str) -> WorkflowValues:
    """Check what a person gave. Raises UsageError with what it may be."""
    if "@" not in github:  # the templates are those of the ratchet that runs
        github += f"@{installed_commit()}"
    named = _GITHUB.fullmatch(github)
    if not named:
        hint = "The commit is what `git ls-remote https://github.com/OWNER/ratchet HEAD` shows."
        raise UsageError(f"--github {github} is not OWNER/ratchet@COMMIT with all 40 digits of the commit.", hint)
    try:
        listed = json.loads(labels)
    except json.JSONDecodeError:
        listed = labels
    names = listed if isinstance(listed, list) else [listed]
    if not names or not all(isinstance(name, str) and re.fullmatch(r"[\w.:-]+", name) for name in names):
        raise UsageError(f"--runner {labels} is not a list of labels.", """Write it as '["self-hosted", "gpu"]'.""")
    if not re.fullmatch(r"[\w./][\w./+-]*", python):
        raise UsageError(f"--python {python} is not the path of a program.", "Write it as /opt/torch/bin/python.")
    return WorkflowValues(named[1], named[2], json.dumps(listed), python, branch)


def with_ignored(old: str | None, results: str, *, is_hidden: bool) -> str:
    """Return .gitignore with the lines that keep reports out of git and the baseline in it.

    ``is_hidden``: git ignores the folder as a whole, so it looks at none of its files until the folder is taken in again.
    """
    wanted = [f"{results}/*", f"!{results}/baseline.json"]
    present = {re.sub(r"^(!?)(\*\*)?/", r"\1", line.strip()) for line in (old or "").splitlines()}
    if is_hidden:
        wanted.insert(0, f"!{results}/")
    missing = [line for line in wanted if line not in present]
    return _with_lines(old, missing) if missing else old or ""


def in_toml(value: str | Sequence[str]) -> str:
    """Return a text, or a list of texts, as TOML has it: like JSON, but for characters that JSON escapes as two halves."""
    return json.dumps(value, ensure_ascii=False)


def with_settings(old: str | None, settings: Mapping[str, str], comments: Mapping[str, str]) -> str:
    """Return pyproject.toml with a table ``[tool.ratchet]`` at its end; ``settings`` are values in TOML, by key.

    Raises UsageError where the file is not valid TOML, or can take no such table.
    """
    lines = [f"{key} = {value}" + (f"  # {comments[key]}" if key in comments else "") for key, value in settings.items()]
    table = ["[tool.ratchet]", *lines, *(f"# {note}" for key, note in comments.items() if key not in settings)]
    new = _with_lines(old, [""] * bool(old) + table)
    try:
        fits = set(tomllib.loads(new)["tool"]["ratchet"]) == set(settings)
    except (tomllib.TOMLDecodeError, KeyError, TypeError):
        fits = False
    if not fits:
        raise UsageError(
            "pyproject.toml can take no table at its end.", "Fix it, or write these lines: " + "; ".join(table) + "."
        )
    return new


def has_settings(text: str) -> bool:
    """Return whether a pyproject.toml has ``[tool.ratchet]``. A file that is not valid TOML has none."""
    try:
        tool = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError:
        return False
    return isinstance(tool, dict) and "ratchet" in tool


def _with_lines(old: str | None, lines: list[str]) -> str:
    """Return a text with more lines, which end as its own lines do."""
    ending = "\r\n" if "\r\n" in (old or "") else "\n"
    start = old or ""
    if start and not start.endswith("\n"):
        start += ending
    return start + "".join(f"{line}{ending}" for line in lines)
