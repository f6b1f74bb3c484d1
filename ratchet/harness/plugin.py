"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Other harnesses": {
        "import": ("ratchet.harness.cli:import_command", "Make a recorded run from files that another harness wrote."),
    },
}
EXAMPLES = {
    "import": ("ratchet import process-1.json process-2.json process-3.json --format nvbench --out before.json",),
}
PARTS = {"importer": "ratchet.harness.import_results", "harness": "ratchet.harness.pairs", "saved": "ratchet.harness.saved"}
