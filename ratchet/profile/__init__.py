"""Profiles: reading and taking them, what they show, and where a kernel stands under the roofs."""
