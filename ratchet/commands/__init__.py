"""Carry out each command, read from top to bottom: load settings, make a plan, measure, judge, profile, write.

`ratchet.cli` parses arguments and calls one function here; this package joins the edges, which do not import each other.
"""
