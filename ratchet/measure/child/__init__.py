"""Everything that runs inside a forked process, next to code that nobody trusts."""
