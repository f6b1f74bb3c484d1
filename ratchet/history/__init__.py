"""The judged runs of the main branch: kept as one file each, indexed, and read as series."""
