"""Profiles of kernels: how they are recorded and read, what they show, and where a kernel is on the roofline."""
