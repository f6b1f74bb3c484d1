"""Tuning: spaces, search strategies, recorded spaces in the T4 format, and the executors that evaluate configurations."""
