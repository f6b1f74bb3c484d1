"""Everything that runs in a child process, next to the code of a benchmark's author, which nobody trusts.

`client` starts the host, the host forks the workers, and a profiler starts `profile_target`. What these files send back is
parsed as foreign data (`messages`).
"""
