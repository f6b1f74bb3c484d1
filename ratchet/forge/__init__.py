"""Everything that talks to git, to GitHub, and to the artifacts of a workflow."""
