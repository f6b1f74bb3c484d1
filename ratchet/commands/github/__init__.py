"""Commands that only CI runs, with rights: publish a run, answer a comment. They never run a repository's own code."""
