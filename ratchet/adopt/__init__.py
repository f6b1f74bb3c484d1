"""Bring ratchet into a repository: see what is there, write a first benchmark, and plan files. `commands.init` joins these."""
