"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Main over time": {
        "baseline": ("", "Show, move and verify the best commit of every case so far."),
        "baseline show": ("ratchet.baseline.cli:baseline_show", "Show results/baseline.json."),
        "baseline record": ("ratchet.baseline.cli:baseline_record", "Enter recorded runs."),
        "baseline accept": ("ratchet.baseline.cli:baseline_accept", "Move the baseline of cases on purpose."),
        "baseline rename": ("ratchet.baseline.cli:baseline_rename", "Continue a case under another name."),
        "baseline verify": ("ratchet.baseline.cli:baseline_verify", "Check the chain of every case."),
    },
}
EXAMPLES = {
    "baseline": (
        "ratchet baseline show",
        "ratchet baseline record",
    ),
    "baseline accept": ('ratchet baseline accept norm/rows_4k --reason "needs float64"',),
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
