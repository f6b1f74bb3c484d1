"""Additions of this tool to the core; `ratchet.tools` explains each name."""

COMMANDS = {"In workflows": {"ci merge": ("ratchet.shards.cli:merge_command", "Join the shards of one check into one verdict.")}}
RENAMED = {"merge": "ci merge"}
EXAMPLES = {"ci merge": ("ratchet ci merge shard-1/current.json shard-2/current.json",)}
