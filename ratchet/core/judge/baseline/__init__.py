"""The chain of steps that a baseline is made of. Pure."""
