"""The GPU and the machine around it: their description, their fitness for timing, and the lock that gives them to one run."""
