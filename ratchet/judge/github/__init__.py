"""What GitHub's events and people's comments mean. Pure."""
