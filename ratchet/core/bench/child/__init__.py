"""Everything that runs in a child process, next to the code of a benchmark's author, which nobody trusts.

`client` starts the host, and the host forks the workers. What these files send back is parsed as foreign data (`messages`).
"""
