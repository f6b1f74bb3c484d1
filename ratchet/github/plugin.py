"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {
    "In workflows": {
        "publish": (
            "ratchet.github.cli:publish_command",
            "Judge what a GPU job measured again, and publish the verdict on GitHub.",
        ),
        "recheck": ("ratchet.github.cli:recheck_command", "Take back verdicts of pull requests that have another base by now."),
        "command": ("ratchet.github.cli:answer_command", "Answer a `/ratchet …` comment or a label in a pull request."),
        "notify": ("ratchet.github.cli:notify_command", "Report a regression of main: one issue for each cause, and a webhook."),
    },
}
EXAMPLES = {
    "command": ("ratchet command --id nightly",),
    "notify": ("ratchet notify first/ second/ --issues --webhook slack",),
    "recheck": ("ratchet recheck 7",),
    "publish": ("ratchet publish run-artifact/ --no-comment",),
}
SUBCOMMANDS = {"baseline": {"push": "ratchet.github.baseline_cli:push_command"}}
