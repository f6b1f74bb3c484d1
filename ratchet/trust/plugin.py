"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Compare two states of the code": {
        "replay": ("ratchet.trust.replay_cli:replay_command", "Judge recorded pairs again: by another gate, or many times over."),
    },
    "Try the machine and the gate": {
        "calibrate": (
            "ratchet.trust.cli:calibrate_command",
            "Measure this checkout against itself: can this machine hold the gate?",
        ),
        "soak": (
            "ratchet.trust.cli:soak_command",
            "Check unchanged code again and again: how often is the gate red for nothing?",
        ),
    },
}
EXAMPLES = {
    "calibrate": (
        "ratchet calibrate",
        "ratchet calibrate norm --time 5m --gate 2%",
    ),
    "replay": (
        "ratchet replay results/current.json --gate 2%",
        "ratchet replay results/current.json --simulate 3000",
    ),
    "soak": (
        "ratchet soak --time 2h --plant 3.5%",
        "ratchet soak --report",
    ),
}
RECORDS = {"calibration": "ratchet.trust.records:Calibration"}
