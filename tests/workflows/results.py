"""How runs of workflows ended, and what can be known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workflows.commands import obeyed


@dataclass
class Step:
    outcome: str = "skipped"
    conclusion: str = "skipped"
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass
class Job:
    """How a job ended, and what can be known of it."""

    name: str
    result: str = "skipped"
    after_skip: bool = False
    """Whether a job before it, however far, or within it was skipped: what needs it then runs by a condition of its own alone."""
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    labels: list[str] = field(default_factory=list)
    """Of the machine that it asked for."""
    steps: dict[str, Step] = field(default_factory=dict)
    """By id or name; those of composite actions too."""
    pip: list[str] = field(default_factory=list)
    """What pip was asked to install."""

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What the runner obeyed of all that was printed."""
        return list(obeyed(self.log.splitlines()))


@dataclass
class Run:
    id: int
    name: str
    path: str
    event_name: str
    event: Mapping[str, Any]
    sha: str
    ref: str
    jobs: dict[str, Job] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def conclusion(self) -> str:
        results = {job.result for job in self.jobs.values()}
        return "failure" if "failure" in results else "success" if "success" in results else "skipped"

    @property
    def log(self) -> str:
        return "\n".join(job.log for job in self.jobs.values())


@dataclass
class Scope:
    """Where a step runs: the contexts of its job, and how things stand."""

    contexts: dict[str, Any]
    permissions: dict[str, str]
    job: Job
    temp: Path
    workspace: Path
    path: str
    hosted: bool
    ok: bool = True
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the machine has of its own."""

    def within(self, **contexts: Any) -> dict[str, Any]:
        return {**self.contexts, **contexts}
