"""Tests, by what they need: nothing (unit), processes and git (integration), Node (workflows), a GPU (gpu)."""
