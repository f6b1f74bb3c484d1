"""The edge that knows git."""
