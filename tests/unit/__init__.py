"""Tests of one module or rule, in this process."""
