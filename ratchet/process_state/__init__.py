"""Read, name and restore what code may leave changed in a process for the code after it (docs/decisions/0026-state.md).

Hosts and workers of the core, and the programs of other tools that run cases, use this.
"""
