"""The tools beside the core, and what each adds to it. The core names no tool anywhere else.

A tool is a folder with a ``plugin.py``, which imports nothing and may set:

- ``COMMANDS``: section of ``ratchet --help`` → words of a command → (module and function, line of the help). Several tools serve
  one command by different second words: ``doctor``, ``doctor soak``;
- ``RENAMED``: words that a command had → its words now;
- ``EXAMPLES``: command → examples at the end of its help page;
- ``WORKER_MODULES``: modules whose ``OPERATIONS`` say what a worker answers beside what timing needs;
- ``RECORDS``: kind of a file that crosses a machine → module and class;
- ``PARTS``: name → module, of what the core or another tool uses where it is there. A name is added by one tool.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

TOOLS = (
    "manual",
    "adopt",
    "baseline",
    "history",
    "trust",
    "explain",
    "lab",
    "tune",
    "github",
    "harness",
    "identical",
    "exchange",
    "environments",
    "shards",
    "kept_builds",
    "process_state",
    "gpu_libraries",
)
"""In the order of their lines in ``ratchet --help``."""


def _added(name: str) -> Iterator[Any]:
    """Yield what the tools set under a name."""
    for tool in TOOLS:
        if (value := getattr(importlib.import_module(f"ratchet.{tool}.plugin"), name, None)) is not None:
            yield value


def commands() -> Iterator[tuple[str, dict[str, tuple[str, str]]]]:
    """Yield the sections of the help with the commands that tools add there."""
    for sections in _added("COMMANDS"):
        yield from sections.items()


def renamed() -> dict[str, str]:
    """Return earlier words of the commands that tools add, and their words now."""
    return {old: new for names in _added("RENAMED") for old, new in names.items()}


def examples() -> dict[str, tuple[str, ...]]:
    """Return the examples of the commands that tools add."""
    return {command: lines for examples in _added("EXAMPLES") for command, lines in examples.items()}


def worker_operations() -> dict[str, Callable[..., dict[str, Any]]]:
    """Import the modules of workers, and return what they let a worker answer: name of a request → function of the worker."""
    modules = [importlib.import_module(module) for modules in _added("WORKER_MODULES") for module in modules]
    return {name: answer for module in modules for name, answer in module.OPERATIONS.items()}


def records() -> dict[str, Any]:
    """Return the classes of files that cross a machine, by kind."""
    return {kind: pkgutil.resolve_name(place) for records in _added("RECORDS") for kind, place in records.items()}


def part(name: str) -> Any:
    """Return a module of `PARTS`; it is imported now."""
    return importlib.import_module(next(parts[name] for parts in _added("PARTS") if name in parts))
