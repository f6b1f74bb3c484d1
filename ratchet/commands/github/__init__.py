"""Carry out the commands that only CI runs, with rights: publish a run, answer a comment.

They talk to GitHub's API and never run a repository's own code.
"""
