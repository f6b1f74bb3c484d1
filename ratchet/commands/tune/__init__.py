"""Carry out `ratchet tune`: search a case's tuning space, record the result, and apply it.

Read `tune` first; `subject` and `session` are its parts.
"""
