"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Compare two states of the code": {
        "compare --join": (
            "ratchet.harness.cli:import_command",
            "Make one run of files that processes of another harness wrote.",
        ),
    },
}
RENAMED = {"import": "compare --join"}
EXAMPLES = {
    "compare --join": ("ratchet compare --join 1.json 2.json 3.json --format nvbench --out before.json",),
}
PARTS = {"importer": "ratchet.harness.import_results", "harness": "ratchet.harness.pairs"}
