"""Carry out `ratchet baseline`: change ``results/baseline.json`` on this machine (`entries`), or on a branch (`push`)."""
