"""Programs that run in a process of their own: the script or the case that `ratchet advise` traces."""
