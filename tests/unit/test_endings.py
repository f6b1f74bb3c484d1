"""How a configuration ended, from what was raised."""

from __future__ import annotations

import pytest

from ratchet.core.bench.child.correctness import WrongResult
from ratchet.core.errors import CudaBuildError
from ratchet.tune.child import ending_of, reason_of


class OutOfResources(Exception):
    """As Triton's, which need not be installed."""


class CompilationError(Exception):
    """Likewise."""


class CompileTimeAssertionFailure(CompilationError):
    """Known by its base, too."""


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (WrongResult("the output is off by 1"), "wrong"),
        (OutOfResources("out of resource: shared memory"), "resources"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "resources"),
        (RuntimeError("normalize was not launched: cudaErrorInvalidConfiguration"), "resources"),
        (RuntimeError("too many resources requested for launch"), "resources"),
        (CompilationError("at 1:1"), "compile"),
        (CompileTimeAssertionFailure("at 1:1"), "compile"),
        (CudaBuildError("nvcc rejected normalize.cu: error."), "compile"),
        (RuntimeError("PassManager::run failed"), "compile"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "crash"),
        (ValueError("no"), "crash"),
        (SystemExit(1), "crash"),
    ],
)
def test_endings(error: BaseException, ending: str) -> None:
    """Compilers, lack of resources, wrong results and everything else are told apart, without Triton being there."""
    assert ending_of(error) == ending


def test_a_reason_is_one_line() -> None:
    """Of several lines the last one counts, without control characters; an error that says nothing still gives a reason."""
    assert reason_of(CompilationError("at 3:4:\n  x\n\x1b[31mno such layout\n")) == "CompilationError: no such layout"
    assert reason_of(ValueError()) == "ValueError: no reason given"
    assert reason_of(WrongResult("off")) == "wrong result: off"
