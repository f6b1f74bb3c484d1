"""Where a run comes from, and what its pull request changed of the way in which it was measured: by GitHub's word alone.

`ratchet.github.event_file` and `publish` ask which runs count; `judge_again` shows the changes. Trees are compared by their
hashes, so it does not matter how many files a pull request touches. Reads from GitHub, changes nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ratchet.core.config import Settings
from ratchet.github.records import Change, CheckRun, Pull, WorkflowRun

if TYPE_CHECKING:  # PyGithub is an extra, and `ratchet ci push` does without it
    from ratchet.github.client import GitHub

WORKFLOWS = ".github/workflows"
MEASURES = "cuda_benchmark_ratchet.yml"
"""The file of the workflow that measures; MEASURING_WORKFLOW names another one."""
SETTINGS = "pyproject.toml"
LARGEST_SETTINGS = 2**20
"""Characters of a settings file of a stranger that is read to see whether it says something else."""


def measuring_path(environ: Mapping[str, str]) -> str:
    """Return the path of the workflow whose samples count."""
    return f"{WORKFLOWS}/{PurePosixPath(environ.get('MEASURING_WORKFLOW') or MEASURES).name}"


def is_foreign(run: WorkflowRun, environ: Mapping[str, str]) -> bool:
    """Return whether another workflow than the measuring one made a run; this job's own run is what its file says it is."""
    return run.path != measuring_path(environ) and str(run.id) != environ.get("GITHUB_RUN_ID")


def measured_on(sha: str, github: GitHub, environ: Mapping[str, str]) -> list[WorkflowRun]:
    """Return the runs of the measuring workflow on a commit, by GitHub's own list."""
    return [run for run in github.runs_of(sha) if not is_foreign(run, environ)]


# The check runs of ours: which run, attempt and base each is about. A job's token is that of every workflow, so the runs that a
# check run names are looked up.


@dataclass(frozen=True, order=True)
class CheckedBase:
    """The measurement that a check run is about, as its external id names it."""

    run: int
    attempt: int
    merge_base: str = ""
    """The commit where the head left its base branch; empty without a pull request."""
    base_ref: str = ""

    def __str__(self) -> str:
        return f"{self.run}.{self.attempt}" + (f":{self.merge_base}:{self.base_ref}" if self.base_ref else "")


_EXTERNAL = re.compile(r"([1-9][0-9]{0,18})\.([1-9][0-9]{0,8})(?::([0-9a-f]{40,64})?:(.{1,255}))?")


def known_checks(
    checks: Iterable[CheckRun], sha: str, github: GitHub, environ: Mapping[str, str]
) -> list[tuple[CheckRun, CheckedBase]]:
    """Return the check runs that are about a run of the measuring workflow on this commit, by GitHub's own list of runs."""
    named = [(check, match) for check in checks if (match := _EXTERNAL.fullmatch(check.external_id))]
    attempts = {run.id: run.attempt for run in measured_on(sha, github, environ)} if named else {}
    found = ((check, CheckedBase(int(m[1]), int(m[2]), m[3] or "", m[4] or "")) for check, m in named)
    return [(check, about) for check, about in found if 0 < about.attempt <= attempts.get(about.run, 0)]


# What a pull request changed of the way in which it was measured.


def changes_of(
    pull: Pull, merge_base: str, settings: Settings, baseline_path: str, github: GitHub, environ: Mapping[str, str]
) -> Iterator[Change]:
    """Yield the parts of the measurement that the head has otherwise than the commit where it left its base branch."""
    if not merge_base:
        yield "unknown"
        return

    def differs(path: str, other: str = merge_base) -> bool:
        return github.object_at(path, pull.head_sha) != github.object_at(path, other)

    workflow, default = measuring_path(environ), github.default_branch()
    if differs(workflow):
        yield "workflow"
    elif differs(".github"):
        yield "jobs"
    if pull.base_ref != default and github.object_at(workflow, merge_base) != github.object_at(
        workflow, github.tip(default) or ""
    ):
        yield "workflow of the base"
    if differs(settings.bench):
        yield "benchmarks"
    if differs(SETTINGS) and _table(github, pull.head_sha) != _table(github, merge_base):
        yield "settings"
    ours = (github.bot, github.repository, settings.baseline_branch)
    if (pull.author, pull.head_repository, pull.head_ref) != ours and differs(baseline_path):
        yield "baseline"


def _table(github: GitHub, commit: str) -> Any:
    """Return [tool.ratchet] at a commit; something that equals nothing where it cannot be read."""
    content = github.file_at(SETTINGS, commit) or b""
    try:
        if len(content) > LARGEST_SETTINGS:
            return object()
        return tomllib.loads(content.decode()).get("tool", {}).get("ratchet", {})
    except (ValueError, RecursionError, AttributeError):
        return object()
