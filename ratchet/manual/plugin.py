"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Begin": {
        "doctor settings": (
            "ratchet.manual.cli:settings_command",
            "Show every setting: its value, its source, its meaning.",
        ),
        "doctor explain": (
            "ratchet.manual.cli:explain_command",
            "Print what the documentation says about a word, an outcome or an exit code.",
        ),
    },
}
RENAMED = {"explain": "doctor explain", "settings": "doctor settings"}
EXAMPLES = {
    "doctor explain": (
        "ratchet doctor explain INCONCLUSIVE",
        "ratchet doctor explain the-machine-is-not-fit",
        "ratchet doctor explain benchmarks",
    ),
    "doctor settings": (
        "ratchet doctor settings",
        "ratchet doctor settings --json",
        "RATCHET_PAIRS=40 ratchet doctor settings",
    ),
}
