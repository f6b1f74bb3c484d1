"""The meaning of a run on GitHub: its event, the commands of people, and the state that it ends in. Pure."""
