"""Everything that talks to GitHub's API and to artifacts of a workflow, with rights; it never runs code of an author."""
