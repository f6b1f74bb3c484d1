# ruff: noqa: A004, F401  these names are Triton's
"""A stand-in for Triton that needs no GPU and no compiler: the interface that `ratchet` uses, and code made of byte code.

Local names do not count for it, as for the compiler. Launches do nothing.
"""

from triton.compiler.compiler import compile
from triton.runtime.jit import jit

__version__ = "3.6.0"
