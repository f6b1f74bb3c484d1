"""Additions of this tool to the core; `ratchet.tools` explains each name."""

PARTS = {"kept_builds": "ratchet.kept_builds.files"}
