"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Compare two states of the code": {
        "bisect": ("ratchet.history.bisect_cli:bisect_command", "Search a range of commits for the one that changed a case."),
    },
    "Main over time": {
        "badge": ("ratchet.history.cli:badge_command", "Write the verdict of the last check as a badge."),
        "cost": ("ratchet.history.cli:cost_command", "Show what checks of main took of their devices, by month."),
        "history": (
            "ratchet.history.cli:history_group",
            "Show how each case on main changed over time, or fill in older commits.",
        ),
        "site": (
            "ratchet.history.cli:site_command",
            "Write the history of main as pages: an overview, one page per case, one per run.",
        ),
    },
}
EXAMPLES = {
    "badge": (
        "ratchet badge",
        "ratchet badge results/report.json --out badge.json",
    ),
    "bisect": (
        "ratchet bisect norm/rows_4k v1.2 main",
        "ratchet bisect norm/rows_4k v1.2 --again",
    ),
    "cost": ("ratchet cost --price 2.5",),
    "history": (
        "ratchet history --fetch",
        "ratchet history norm/rows_4k --last 50",
        "ratchet history 'norm/*' --json",
    ),
    "history fill": (
        "ratchet history fill v1.2..main --time 20m",
        "ratchet history fill v1.2..main -- src/kernels   only commits that change this folder",
    ),
    "history show": ("ratchet history show norm/rows_4k --last 50",),
    "site": (
        "ratchet site",
        "ratchet site --out _site --title 'Kernels on H200'",
    ),
}
RECORDS = {"history": "ratchet.history.records:HistoryRun"}
PARTS = {"kept_runs": "ratchet.history.command", "anchors": "ratchet.history.anchors"}
