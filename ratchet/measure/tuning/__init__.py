"""Evaluate configurations of one case on one device: compile ahead, time one after another, confirm the best in pairs.

`ratchet tune` uses it through `station.LocalStation`.
"""
