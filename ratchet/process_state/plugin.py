"""Additions of this tool to the core; `ratchet.tools` explains each name."""

PARTS = {
    "process_state": "ratchet.process_state.state",
    "import_watch": "ratchet.process_state.imports",
    "case_boundary": "ratchet.process_state.boundary",
}
