"""`ratchet experiment`: `start` profiles a case and opens a session, `run` tries one change, `session` keeps and shows it.

Each file holds what its command does, from top to bottom.
"""
