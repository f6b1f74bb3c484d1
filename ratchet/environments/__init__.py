"""The Python environments of `--env`: found or made for each side, and compared."""
