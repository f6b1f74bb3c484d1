"""The meaning of GitHub's events and of people's comments. Pure: the caller talks to GitHub."""
