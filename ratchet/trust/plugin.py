"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Begin": {
        "doctor calibrate": ("ratchet.trust.cli:calibrate_command", "Can this machine hold the gate?"),
        "doctor soak": ("ratchet.trust.cli:soak_command", "How often is the gate red for nothing?"),
    },
    "Compare two states of the code": {
        "compare --replay": ("ratchet.trust.replay_cli:replay_command", "Judge recorded pairs again, or simulate pull requests."),
    },
}
RENAMED = {"calibrate": "doctor calibrate", "soak": "doctor soak", "replay": "compare --replay"}
EXAMPLES = {
    "compare --replay": (
        "ratchet compare --replay results/current.json --gate 2%",
        "ratchet compare --replay results/current.json --simulate 3000 --plant norm/rows_4k=1.035",
    ),
    "doctor calibrate": (
        "ratchet doctor calibrate",
        "ratchet doctor calibrate norm --time 5m --gate 2%",
    ),
    "doctor soak": (
        "ratchet doctor soak --time 2h --plant 3.5%",
        "ratchet doctor soak --report",
    ),
}
RECORDS = {"calibration": "ratchet.trust.records:Calibration"}
