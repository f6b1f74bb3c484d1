"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "In workflows": {
        "ci publish": ("ratchet.github.cli:publish_command", "Judge what a GPU job measured again, and publish the verdict."),
        "ci recheck": (
            "ratchet.github.cli:recheck_command",
            "Take back verdicts of pull requests that have another base by now.",
        ),
        "ci command": ("ratchet.github.cli:answer_command", "Answer a `/ratchet …` comment or a label in a pull request."),
        "ci notify": ("ratchet.github.cli:notify_command", "Report a regression of main: an issue for each cause, a webhook."),
        "ci culprit": ("ratchet.github.cli:culprit_command", "Tell the issue of a regression which commit a search has found."),
        "ci push": ("ratchet.github.baseline_cli:push_command", "Move the baseline of the remote by runs of main."),
    },
}
RENAMED = {
    "baseline push": "ci push",
    "command": "ci command",
    "notify": "ci notify",
    "publish": "ci publish",
    "recheck": "ci recheck",
}
EXAMPLES = {
    "ci command": ("ratchet ci command --id nightly",),
    "ci culprit": ("ratchet ci culprit bisect-artifact/ --case norm/rows_4k --good GOOD --bad BAD --issue 7",),
    "ci notify": ("ratchet ci notify first/ second/ --issues --webhook slack",),
    "ci publish": ("ratchet ci publish run-artifact/ --no-comment",),
    "ci push": ("ratchet ci push run-artifact/ --mode pull-request",),
    "ci recheck": ("ratchet ci recheck 7",),
}
