"""Time the benchmarks of two trees on one device: find them, fork workers, let the sides take turns, watch the machine."""
