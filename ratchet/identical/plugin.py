"""Additions of this tool to the core; `ratchet.tools` explains each name."""

PARTS = {"host_code": "ratchet.identical.proof", "launches": "ratchet.identical.launches"}
