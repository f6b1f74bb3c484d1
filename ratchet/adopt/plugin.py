"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Begin": {
        "init": ("ratchet.adopt.cli:init_command", "Write a first benchmark, settings, and workflows."),
        "doctor": ("ratchet.adopt.cli:doctor_command", "Say what this machine can and cannot do, and what to do."),
        "doctor cases": ("ratchet.adopt.cli:cases_command", "List the cases of this checkout."),
    },
}
RENAMED = {"list": "doctor cases"}
EXAMPLES = {
    "init": (
        "ratchet init",
        "ratchet init --yes --dry-run",
        "ratchet init --github OWNER/ratchet@COMMIT --python /opt/torch/bin/python",
        "ratchet init --check",
    ),
    "doctor": (
        "ratchet doctor",
        "ratchet doctor --json",
        "ratchet doctor --strict",
    ),
    "doctor cases": (
        "ratchet doctor cases",
        "ratchet doctor cases 'norm/*' --json",
    ),
}
PARTS = {"schemas": "ratchet.common.schema"}
