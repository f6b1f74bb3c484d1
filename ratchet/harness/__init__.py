"""Benchmarks that another harness times: `results` reads its files, `pairs` runs its command for two trees in turn."""
