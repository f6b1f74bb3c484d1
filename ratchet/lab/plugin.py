"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Find out why, make it faster": {
        "evaluate": (
            "ratchet.lab.cli:evaluate_command",
            "Compare a candidate file with a baseline file: faster?",
        ),
        "experiment": ("", "Try changes one by one on a pipeline: keep or discard, and why."),
        "experiment start": ("ratchet.lab.cli:start_command", "Profile a case and open a session."),
        "experiment run": ("ratchet.lab.cli:run_command", "Try the working tree: keep or discard?"),
        "experiment status": ("ratchet.lab.cli:status_command", "Say what was gained, and what to try next."),
        "experiment show": ("ratchet.lab.cli:show_command", "Show an experiment again."),
        "experiment handoff": ("ratchet.lab.cli:handoff_command", "Print HANDOFF.md, for whoever goes on."),
        "variants": (
            "ratchet.lab.variants_cli:variants_command",
            "Time ways to do the same work, quick wins, and roofs.",
        ),
    },
}
RENAMED = {"quickwins": "variants --quickwins", "study": "variants", "sweep": "variants"}
EXAMPLES = {
    "evaluate": ("ratchet evaluate before.py after.py --input 4096x4096:bfloat16",),
    "experiment": (
        "ratchet experiment start pipeline --tests 'pytest -q tests'",
        "ratchet experiment status",
    ),
    "experiment handoff": ("ratchet experiment handoff",),
    "experiment run": ('ratchet experiment run -m "a pinned buffer" --stage upload --pattern pageable-h2d',),
    "experiment show": (
        "ratchet experiment show",
        "ratchet experiment show 3 --json",
    ),
    "experiment start": (
        "ratchet experiment start pipeline --tests 'pytest -q tests' --minutes 60",
        "ratchet experiment start pipeline --again --import .codeflash/results.tsv",
    ),
    "experiment status": ("ratchet experiment status",),
    "variants": (
        "ratchet variants normalize",
        "ratchet variants normalize/rows_4k --over columns=2**7..2**14",
        "ratchet variants --quickwins bmm vector_access --pairs 12",
    ),
}
PARTS = {"containment": "ratchet.lab.child.containment"}
WORKER_MODULES = ("ratchet.lab.child.experiment",)
