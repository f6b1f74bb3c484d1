"""Examples at the end of each help page, by command. `ratchet.core.cli` adds them when it loads a command."""

from __future__ import annotations

import click

from ratchet import tools

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "ratchet init        a first benchmark for this repository",
        "ratchet check       are my changes slower than the last commit?",
        "ratchet doctor      what this machine can do",
    ),
    "badge": (
        "ratchet badge",
        "ratchet badge results/report.json --out badge.json",
    ),
    "baseline": (
        "ratchet baseline show",
        "ratchet baseline record",
    ),
    "baseline accept": ('ratchet baseline accept norm/rows_4k --reason "needs float64"',),
    "baseline push": ("ratchet baseline push run-artifact/ --mode pull-request",),
    "baseline record": (
        "ratchet baseline record",
        "ratchet baseline record first/current.json second/current.json",
    ),
    "baseline rename": ("ratchet baseline rename norm/rows_4k rms_norm/rows_4k",),
    "baseline show": (
        "ratchet baseline show",
        "ratchet baseline show 'norm/*' --history",
    ),
    "baseline verify": ("ratchet baseline verify",),
    "check": (
        "ratchet check                          with uncommitted changes against HEAD, else HEAD against the one before",
        "ratchet check --merge-base main        this branch against where it left main",
        "ratchet check norm 'attention/*' --base v1.2 --gate 2%",
        "ratchet check --base HEAD --time-identical   what unchanged code gives",
        "ratchet check --command './bench --jsonbin {out}' --format nvbench   another harness",
    ),
    "compare": (
        "ratchet compare before/current.json after/current.json",
        "ratchet compare before.json after.json --format hyperfine",
    ),
    "doctor": (
        "ratchet doctor",
        "ratchet doctor --json",
        "ratchet doctor --strict",
    ),
    "list": (
        "ratchet list",
        "ratchet list 'norm/*' --json",
    ),
    "merge": ("ratchet merge shard-1/current.json shard-2/current.json",),
    "open": ("ratchet open",),
    "report": (
        "ratchet report",
        "ratchet report old/current.json --gate 5%",
    ),
    "run": (
        "ratchet run",
        "ratchet run norm --pairs 12 --device cpu",
    ),
    "settings": (
        "ratchet settings",
        "ratchet settings --json",
        "RATCHET_PAIRS=40 ratchet settings",
    ),
}
EXAMPLES |= tools.examples()
"""Command → lines that can be typed; what follows three blanks says what the line does."""


def with_examples(command: click.Command, name: str) -> click.Command:
    """Add the examples of a command (empty: of ``ratchet``), and those of its own commands, to their help."""
    command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES.get(name, ()))
    for own, inner in getattr(command, "commands", {}).items():
        with_examples(inner, f"{name} {own}")
    return command
