"""The names that a benchmark author imports: ``benchmark`` and ``Workload``. Importing this never imports torch."""

from ratchet.core.workload import Benchmark, Workload, benchmark

__all__ = ["Benchmark", "Workload", "__version__", "benchmark"]
__version__ = "0.1.0"
