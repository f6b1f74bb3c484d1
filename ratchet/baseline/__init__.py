"""The baseline file of a checkout: shown, verified, and moved by the people and runs of this machine."""
