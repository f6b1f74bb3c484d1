"""Programs that run in a process of their own: the targets of profilers and of `ratchet advise`; and what a worker traces."""
