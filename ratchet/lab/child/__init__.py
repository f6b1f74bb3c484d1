"""Answers of a worker for candidates and experiments."""
