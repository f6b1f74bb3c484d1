"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "Compare two states of the code": {
        "run --static": (
            "ratchet.identical.static.cli:record_command",
            "Write down what each case needs for a verdict without a GPU.",
        ),
        "check --static": (
            "ratchet.identical.static.cli:check_command",
            "Which cases did this change leave alone? Needs no GPU.",
        ),
    },
}
EXAMPLES = {
    "run --static": ("ratchet run --static",),
    "check --static": (
        "ratchet check --static --merge-base origin/main",
        "ratchet check --static --base main --needed cases.txt",
    ),
}
WORKER_MODULES = ("ratchet.identical.static.child",)
RECORDS = {
    "static": "ratchet.identical.static.records:Recorded",
    "static_report": "ratchet.identical.static.records:StaticReport",
}
PARTS = {
    "host_code": "ratchet.identical.proof",
    "launches": "ratchet.identical.launches",
    "static": "ratchet.identical.static.command",
    "static_evidence": "ratchet.identical.static.evidence",
}
