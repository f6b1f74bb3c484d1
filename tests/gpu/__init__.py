"""Tests that need an NVIDIA GPU; elsewhere they skip and say so."""
