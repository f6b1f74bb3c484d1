"""What torch, Triton and packages built on them need from a process that forks others, or that others run beside."""
