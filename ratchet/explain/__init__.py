"""Profiles of kernels: how they are recorded and read, what they show, where a kernel is on the roofline, and what to try."""
