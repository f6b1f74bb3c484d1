"""The edge that times: finds benchmarks, forks workers, lets two sides take turns, and watches the machine."""
