"""What a worker answers for candidates and experiments."""
