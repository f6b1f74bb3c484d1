"""Prepare hosts and workers for torch, Triton and packages built on them: facts at import, compilers, autotuners."""
