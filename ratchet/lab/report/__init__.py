"""Texts and pictures about candidates, experiments and variants."""
