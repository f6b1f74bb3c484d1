"""Tests that run the command line in real repositories."""
