"""Carry out `ratchet baseline`: change ``results/baseline.json`` on this machine (`entries`), or on a branch (`push`).

`ratchet.cli.baseline` calls it. Nothing is measured.
"""
