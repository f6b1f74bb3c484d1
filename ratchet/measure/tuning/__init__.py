"""Configurations of one case on one device: compiled ahead, tried one after another, and the best confirmed in pairs."""
