"""What this tool adds to the core (`ratchet.tools` says what each name means)."""

COMMANDS = {
    "Other harnesses": {
        "import": ("ratchet.harness.cli:import_command", "Make a recorded run from files that another harness wrote."),
    },
}
EXAMPLES = {
    "import": ("ratchet import process-1.json process-2.json process-3.json --format nvbench --out before.json",),
}
PARTS = {"importer": "ratchet.harness.import_results", "harness": "ratchet.harness.pairs"}
