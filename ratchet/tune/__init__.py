"""Tuning: spaces, strategies, recorded spaces in the T4 format, and who evaluates configurations."""
