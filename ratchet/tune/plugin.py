"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Find out why, make it faster": {
        "tune": ("ratchet.tune.cli:tune_command", "Search the parameters of a case."),
    },
}
EXAMPLES = {
    "tune": (
        "ratchet tune norm/rows_4k --time-budget 10m",
        "ratchet tune norm/rows_4k --resume --apply",
        "ratchet tune --jointly --record tuning/norm.rows_4k.M.json --record tuning/norm.rows_8k.M.json",
    ),
}
WORKER_MODULES = ("ratchet.tune.child",)
RECORDS = {"tuning": "ratchet.tune.records:TuningRecord"}
