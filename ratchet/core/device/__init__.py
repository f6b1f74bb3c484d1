"""The GPU and the machine around it: their description, their fitness for timing, and the lock that gives them to one run.

`ratchet.core.machine` and `ratchet doctor` use it. It asks NVML, reads /proc, runs small programs for their versions, and writes
lock files.
"""
