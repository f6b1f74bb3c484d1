"""Pure statistics: samples → summaries, two sides → a comparison. Imports neither torch nor anything that reads a file."""
