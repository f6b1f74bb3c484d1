"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Find out why, make it faster": {
        "evaluate": (
            "ratchet.lab.cli:evaluate_command",
            "Compare a candidate file with a baseline file: same results, and faster?",
        ),
        "experiment": ("ratchet.lab.cli:experiment_group", "Try changes one by one on a pipeline: keep or discard, and why."),
        "variants": (
            "ratchet.lab.variants_cli:variants_command",
            "Time ways to do the same work beside each other, and well-known quick wins.",
        ),
    },
}
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
