"""Shards of one check, measured on several runners: `ratchet ci merge` joins them."""
