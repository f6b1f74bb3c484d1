"""The edge that knows git and GitHub."""
