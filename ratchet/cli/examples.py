"""Examples at the end of each help page, by command. `ratchet.cli` adds them when it loads a command."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "ratchet init        a first benchmark for this repository",
        "ratchet check       are my changes slower than the last commit?",
        "ratchet doctor      what this machine can do",
    ),
    "advise": (
        "ratchet advise train.py --epochs 1     words behind a script are the script's",
        "ratchet advise --trace-for 3s --save trace.json train.py",
        "ratchet advise attention/training_512",
        "ratchet advise trace.json.gz",
    ),
    "badge": ("ratchet badge", "ratchet badge results/report.json --out badge.json"),
    "baseline": ("ratchet baseline show", "ratchet baseline record"),
    "baseline accept": ('ratchet baseline accept norm/rows_4k --reason "needs float64"',),
    "baseline push": ("ratchet baseline push run-artifact/ --mode pull-request",),
    "baseline record": ("ratchet baseline record", "ratchet baseline record first/current.json second/current.json"),
    "baseline rename": ("ratchet baseline rename norm/rows_4k rms_norm/rows_4k",),
    "baseline show": ("ratchet baseline show", "ratchet baseline show 'norm/*' --history"),
    "baseline verify": ("ratchet baseline verify",),
    "bisect": ("ratchet bisect norm/rows_4k v1.2 main", "ratchet bisect norm/rows_4k v1.2 --again"),
    "calibrate": ("ratchet calibrate", "ratchet calibrate norm --time 5m --gate 2%"),
    "check": (
        "ratchet check                          with uncommitted changes against HEAD, else HEAD against the one before",
        "ratchet check --merge-base main        this branch against where it left main",
        "ratchet check norm 'attention/*' --base v1.2 --gate 2%",
        "ratchet check --base HEAD --time-identical   what unchanged code gives",
        "ratchet check --command './bench --jsonbin {out}' --format nvbench   another harness",
    ),
    "command": ("ratchet command --id nightly",),
    "compare": (
        "ratchet compare before/current.json after/current.json",
        "ratchet compare before.json after.json --format hyperfine",
    ),
    "doctor": ("ratchet doctor", "ratchet doctor --json", "ratchet doctor --strict"),
    "evaluate": ("ratchet evaluate before.py after.py --input 4096x4096:bfloat16",),
    "experiment": ("ratchet experiment start pipeline --tests 'pytest -q tests'", "ratchet experiment status"),
    "experiment handoff": ("ratchet experiment handoff",),
    "experiment run": ('ratchet experiment run -m "a pinned buffer" --stage upload --pattern pageable-h2d',),
    "experiment show": ("ratchet experiment show", "ratchet experiment show 3 --json"),
    "experiment start": (
        "ratchet experiment start pipeline --tests 'pytest -q tests' --minutes 60",
        "ratchet experiment start pipeline --again --import .codeflash/results.tsv",
    ),
    "experiment status": ("ratchet experiment status",),
    "import": ("ratchet import process-1.json process-2.json process-3.json --format nvbench --out before.json",),
    "history": ("ratchet history --fetch", "ratchet history norm/rows_4k --last 50", "ratchet history 'norm/*' --json"),
    "init": (
        "ratchet init",
        "ratchet init --yes --dry-run",
        "ratchet init --github OWNER/ratchet@COMMIT --python /opt/torch/bin/python",
        "ratchet init --check",
    ),
    "list": ("ratchet list", "ratchet list 'norm/*' --json"),
    "merge": ("ratchet merge shard-1/current.json shard-2/current.json",),
    "notify": ("ratchet notify first/ second/ --issues --webhook slack",),
    "open": ("ratchet open",),
    "profile": ("ratchet profile norm/rows_4k --base HEAD~1", "ratchet profile --read before.ncu-rep after.ncu-rep"),
    "publish": ("ratchet publish run-artifact/ --no-comment",),
    "replay": ("ratchet replay results/current.json --gate 2%", "ratchet replay results/current.json --simulate 3000"),
    "report": ("ratchet report", "ratchet report old/current.json --gate 5%"),
    "roofline": ("ratchet roofline", "ratchet roofline 'norm/*' --out pictures"),
    "run": ("ratchet run", "ratchet run norm --pairs 12 --device cpu"),
    "settings": ("ratchet settings", "ratchet settings --json", "RATCHET_PAIRS=40 ratchet settings"),
    "site": ("ratchet site", "ratchet site --out _site --title 'Kernels on H200'"),
    "soak": ("ratchet soak --time 2h --plant 3.5%", "ratchet soak --report"),
    "tune": ("ratchet tune norm/rows_4k --time-budget 10m", "ratchet tune norm/rows_4k --resume --apply"),
    "variants": (
        "ratchet variants normalize",
        "ratchet variants normalize/rows_4k --over columns=2**7..2**14",
        "ratchet variants --quickwins bmm vector_access --pairs 12",
    ),
}
"""Command → lines that can be typed; what follows three blanks says what the line does."""


def with_examples(command: click.Command, name: str) -> click.Command:
    """Add the examples of a command (empty: of ``ratchet``), and those of its own commands, to their help."""
    command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES.get(name, ()))
    for own, inner in getattr(command, "commands", {}).items():
        with_examples(inner, f"{name} {own}")
    return command
