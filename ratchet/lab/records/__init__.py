"""What candidates, experiments and variants write to disk."""
