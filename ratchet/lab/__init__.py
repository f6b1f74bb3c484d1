"""Prove an optimisation: candidate files, experiments on a pipeline, ways to do the same work beside each other."""
