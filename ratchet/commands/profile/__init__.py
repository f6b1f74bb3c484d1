"""Profile the cases that a check found changed, or named ones (`cases`), and store the results (`results`).

`ratchet check`, `profile`, `merge` and `report` use it. Profilers run as child processes; files go to ``results/nsight/``.
"""
