"""Pieces of workflow files, and of what steps write, as a runner understands them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"octo-org/ratchet/(?P<path>[^@]+)@[0-9a-f]{40}")
"""How another repository names our files."""


def read_yaml(path: Path) -> dict[str, Any]:
    """A workflow or action; ``on`` stays a word."""
    document: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    if True in document:
        document["on"] = document.pop(True)
    return document


def in_order(jobs: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Jobs, each after those that it needs."""
    left, done = dict(jobs), set[str]()
    while left:
        for name, spec in list(left.items()):
            needs = spec.get("needs", [])
            if set([needs] if isinstance(needs, str) else needs) <= done:
                yield name, left.pop(name)
                done.add(name)


def permitted(wanted: Mapping[str, str] | None, allowed: Mapping[str, str] | None) -> dict[str, str]:
    """What a job's token may. A called workflow may not ask for more than its caller has."""
    assert wanted is not None, "a workflow says which permissions its jobs have"
    level = {"none": 0, "read": 1, "write": 2}
    for name, asked in wanted.items():
        assert allowed is None or level[asked] <= level[allowed.get(name, "none")], f"the caller does not give {name}: {asked}"
    return dict(wanted)


def our_path(uses: str) -> str:
    """Where in this repository an action or workflow of ours lies."""
    match = OURS.fullmatch(uses)
    assert match or re.match(r"\$/.", uses), f"{uses}: a path has to follow"
    return match["path"] if match else uses.removeprefix("$/")


def our_action(uses: str) -> Path | None:
    """The folder of an action of ours; None for one of others."""
    return ROOT / our_path(uses) if uses.startswith("$/") or OURS.fullmatch(uses) else None


def word(value: Any) -> str:
    """A value as a runner writes it into an environment or a script."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def assignments(text: str) -> Iterator[tuple[str, str]]:
    """``name=value`` and ``name<<END … END``, as in GITHUB_OUTPUT."""
    lines = iter(text.splitlines())
    for line in lines:
        here = re.fullmatch(r"([\w-]+)<<(.+)", line)
        if here:
            yield here[1], "\n".join(itertools.takewhile(lambda each, end=here[2]: each != end, lines))
        elif line:
            name, found, value = line.partition("=")
            assert found, line
            yield name, value
