"""Records that candidates, experiments and variants write to disk."""
