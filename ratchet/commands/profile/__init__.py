"""Profile the cases that a check found changed (`cases`), or named ones (`by_hand`), and store the results (`results`).

`ratchet check`, `profile`, `merge` and `report` use it. Profilers run as child processes; files go to ``results/nsight/``.
"""
