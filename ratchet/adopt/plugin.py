"""What this tool adds to the core (`ratchet.tools` says what each name means)."""

COMMANDS = {
    "Begin": {
        "init": ("ratchet.adopt.cli:init_command", "Write a first benchmark, settings, and the workflows of a repository."),
    },
}
EXAMPLES = {
    "init": (
        "ratchet init",
        "ratchet init --yes --dry-run",
        "ratchet init --github OWNER/ratchet@COMMIT --python /opt/torch/bin/python",
        "ratchet init --check",
    ),
}
