"""Time the benchmarks of two trees on one device: find them, fork workers, let the sides take turns, watch the machine.

`ratchet.core` calls this package. It starts child processes, uses the GPU and reads the machine; of the other edges it
imports none (`tests/unit/test_floors.py` holds that).
"""
