"""Additions of this tool to the core; `ratchet.tools` explains each name."""

PARTS = {
    "libraries": "ratchet.gpu_libraries.libraries",
    "gpu_facts": "ratchet.gpu_libraries.gpu_facts",
    "autotuning": "ratchet.gpu_libraries.autotuning",
}
