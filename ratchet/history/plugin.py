"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Compare two states of the code": {
        "bisect": ("ratchet.history.cli:bisect_command", "Search a range of commits for the one that changed a case."),
    },
    "Main over time": {
        "history": ("ratchet.history.cli:history_command", "Show how each case on main changed over time."),
        "history --html": ("ratchet.history.cli:site_command", "Write it as pages: an overview, a page per case and per run."),
        "history --badge": ("ratchet.history.cli:badge_command", "Write the verdict of the last check as a badge."),
        "history fill": ("ratchet.history.cli:fill_command", "Measure older commits."),
        "history cost": ("ratchet.history.cli:cost_command", "Show what checks of main took of their devices, by month."),
    },
}
RENAMED = {"badge": "history --badge", "cost": "history cost", "history show": "history", "site": "history --html"}
EXAMPLES = {
    "bisect": (
        "ratchet bisect norm/rows_4k v1.2 main",
        "ratchet bisect norm/rows_4k v1.2 --again",
    ),
    "history": (
        "ratchet history --fetch",
        "ratchet history norm/rows_4k --last 50",
        "ratchet history 'norm/*' --json",
    ),
    "history --badge": (
        "ratchet history --badge",
        "ratchet history --badge results/report.json --out badge.json",
    ),
    "history --html": (
        "ratchet history --html",
        "ratchet history --html --out _site --title 'Kernels on H200'",
    ),
    "history cost": ("ratchet history cost --price 2.5",),
    "history fill": (
        "ratchet history fill v1.2..main --time 20m",
        "ratchet history fill v1.2..main -- src/kernels   only commits that change this folder",
    ),
}
RECORDS = {"history": "ratchet.history.records:HistoryRun"}
PARTS = {"kept_runs": "ratchet.history.command", "anchors": "ratchet.history.anchors"}
