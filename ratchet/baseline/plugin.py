"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Main over time": {
        "baseline": ("ratchet.baseline.cli:baseline_group", "Show, move and verify the best commit of every case."),
    },
}
EXAMPLES = {
    "baseline": (
        "ratchet baseline show",
        "ratchet baseline record",
    ),
    "baseline accept": ('ratchet baseline accept norm/rows_4k --reason "needs float64"',),
    "baseline push": ("ratchet baseline push run-artifact/ --mode pull-request",),
    "baseline record": (
        "ratchet baseline record",
        "ratchet baseline record first/current.json second/current.json",
    ),
    "baseline rename": ("ratchet baseline rename norm/rows_4k rms_norm/rows_4k",),
    "baseline show": (
        "ratchet baseline show",
        "ratchet baseline show 'norm/*' --history",
    ),
    "baseline verify": ("ratchet baseline verify",),
}
