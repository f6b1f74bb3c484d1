"""Markdown tables on stdout, a row as soon as it is known."""

from __future__ import annotations


def table(*heads: str) -> None:
    print(f"| {' | '.join(heads)} |\n|:--|{'--:|' * (len(heads) - 1)}", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
