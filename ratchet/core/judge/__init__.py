"""Judgement: comparison + policy → outcome; outcomes → verdict; verdict + baseline → next baseline.

The commands call it, after a measurement and again when a record comes back from another job. Pure: no file, no device, no
process, no network.
"""
