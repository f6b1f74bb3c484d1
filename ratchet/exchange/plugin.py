"""Additions of this tool to the core; `ratchet.tools` explains each name."""

PARTS = {"exchange": "ratchet.exchange.texts"}
