"""Everything that runs in a child process, next to the code of a benchmark's author, which nobody trusts."""
