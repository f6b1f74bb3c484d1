"""The manual: what ratchet says of itself, its pages, its settings and the schemas of its files."""
