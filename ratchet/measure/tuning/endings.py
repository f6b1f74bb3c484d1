"""What an author's code or a compiler raised → how a configuration ended, and why in one line."""

from __future__ import annotations

import re

from ratchet.measure.correctness import WrongResult
from ratchet.measure.text import clean
from ratchet.records.tuning import Ending

_COMPILE = {"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError", "CudaBuildError"}
_RESOURCES = {"OutOfResources", "OutOfMemoryError"}
_NOT_ENOUGH = re.compile(r"out of (resource|memory)|too many resources|OUT_OF_RESOURCES|exceeds? .*shared memory", re.IGNORECASE)
_NOT_LAUNCHED = re.compile(r"invalid (configuration|argument)|cudaErrorInvalid(Configuration|Value)", re.IGNORECASE)


def ending_of(error: BaseException) -> Ending:
    """By the names of the error's classes, since Triton need not be there; then by what it says."""
    names = {each.__name__ for each in type(error).__mro__}
    text = str(error)
    if isinstance(error, WrongResult):
        return "wrong"
    if names & _RESOURCES or _NOT_ENOUGH.search(text) or _NOT_LAUNCHED.search(text):
        return "resources"
    if names & _COMPILE or "PassManager::run failed" in text:
        return "compile"
    return "crash"


def reason_of(error: BaseException) -> str:
    """One line: the last of several says most, as a compiler's own words come after the source that it quotes."""
    if isinstance(error, WrongResult):
        return clean(f"wrong result: {error}")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else "no reason given"
    return clean(said if type(error).__name__ == "CudaBuildError" else f"{type(error).__name__}: {said}")
