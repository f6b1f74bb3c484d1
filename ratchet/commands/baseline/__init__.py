"""Commands that write ``results/baseline.json``: on this machine, and on a branch of the repository."""
