"""Search a case's tuning space, record what was found, and apply it."""
