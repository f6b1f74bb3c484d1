"""Statistics: samples → summaries, two sides → a comparison. Pure; imports neither torch nor anything that reads a file."""
