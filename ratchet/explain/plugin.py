"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Find out why, make it faster": {
        "profile": (
            "ratchet.explain.cli:profile_command",
            "Profile cases, alone or beside an earlier commit.",
        ),
        "advise": (
            "ratchet.explain.cli:advise_command",
            "Name the antipatterns in a script, a case or a trace.",
        ),
        "variants --roofline": (
            "ratchet.explain.cli:roofline_command",
            "Draw how near each case comes to what the machine can do.",
        ),
    },
}
RENAMED = {"roofline": "variants --roofline"}
EXAMPLES = {
    "advise": (
        "ratchet advise train.py --epochs 1     words behind a script are the script's",
        "ratchet advise --trace-for 3s --save trace.json train.py",
        "ratchet advise attention/training_512",
        "ratchet advise trace.json.gz",
    ),
    "profile": (
        "ratchet profile norm/rows_4k --base HEAD~1",
        "ratchet profile --read before.ncu-rep after.ncu-rep",
        "ratchet profile --nsys pipeline/frame   pageable or pinned copies, gaps and overlap",
    ),
    "variants --roofline": (
        "ratchet variants --roofline",
        "ratchet variants --roofline 'norm/*' --out pictures",
    ),
}
WORKER_MODULES = ("ratchet.explain.child.traced_case",)
RECORDS = {"roofline": "ratchet.common.rooflines:Roofline"}
PARTS = {
    "advise": "ratchet.explain.advise_command",
    "explainer": "ratchet.explain.cases",
    "ncu": "ratchet.explain.ncu",
    "profile_text": "ratchet.explain.report",
    "profile_files": "ratchet.explain.results",
    "roofline": "ratchet.explain.roofline",
    "roofs": "ratchet.explain.roof_timing",
    "roofline_figure": "ratchet.explain.roofline_figure",
}
