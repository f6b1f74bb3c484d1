"""What people read of candidates, experiments and variants."""
