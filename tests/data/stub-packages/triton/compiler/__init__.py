# ruff: noqa: A004, F401  these names are Triton's
from triton.compiler.compiler import ASTSource, CompiledKernel, compile, make_backend
