"""The evaluation of a candidate file against a baseline file: what to call with which inputs, what was seen, and the verdict.

`ratchet.lab.evaluate` makes the task and the record, `ratchet.core.bench` fills in what it sees, `ratchet.lab.judge`
decides. ``--json`` prints the record, ``--certify`` writes it with both sources. Pure.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment
from ratchet.core.records.run import Side, WorkerSamples
from ratchet.core.records.verdict import Comparison

TASK_FILE = "evaluation.json"
"""Holds the task of a host, in its tree."""
_INPUT = re.compile(r"(?P<shape>\d+(?:x\d+)*)(?::(?P<dtype>[a-z]+\d*\w*))?(?::(?P<low>-?\d+)\.\.(?P<high>-?\d+))?")
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


class InputSpec(Record):
    """One argument of the function: a tensor of random content, or a number."""

    shape: tuple[Annotated[int, Field(ge=1, le=2**40)], ...] = ()
    dtype: str = "float32"
    low: int = 0
    high: int = 2
    """Integers are drawn from ``low`` up to ``high``, which is not among them."""
    number: float | None = None
    """The argument itself, where it is a number."""

    @property
    def is_float(self) -> bool:
        return self.number is None and self.dtype in _FLOATS


def parse_input(text: str) -> InputSpec:
    """Read ``4096x4096``, ``4096x4096:bfloat16``, ``8192:int64:0..32000`` or ``=0.5``. Raises ValueError."""
    if text.startswith("="):
        try:
            return InputSpec(number=float(text[1:]))
        except ValueError:
            raise ValueError(f"{text!r} is not a number: write =0.5") from None
    match = _INPUT.fullmatch(text)
    dtype = (match["dtype"] or "float32") if match else ""
    if match is None or dtype not in (*_FLOATS, *_INTEGERS):
        raise ValueError(f"{text!r} is not an input: write 4096x4096, 4096x4096:bfloat16, 8192:int64:0..32000 or =0.5")
    low, high = (int(match["low"]), int(match["high"])) if match["low"] else (0, 2)
    if not low < high:
        raise ValueError(f"{text!r} has no value from {low} up to {high}")
    return InputSpec(shape=tuple(int(size) for size in match["shape"].split("x")), dtype=dtype, low=low, high=high)


class SourceFile(Record):
    """A Python file as it was when the evaluation began: what runs is this text, whatever happens to the file."""

    path: str
    sha256: str
    text: str = ""
    """Empty where the record is printed without sources."""


class EvaluationTask(Record):
    """The task of one host: the file, the function in it, and the way to make its arguments."""

    source: SourceFile
    function: str
    inputs: tuple[InputSpec, ...] = ()
    maker: SourceFile | None = None
    """The file whose function ``maker_function`` makes the arguments from a seed and a device, in place of ``inputs``."""
    maker_function: str = ""
    folder: str = "."
    """The folder in which the command was called: the files may read others from there."""
    tolerance: Positive = 1e-2
    """Largest relative error, by norm, of results that are checked between pairs."""
    strict: bool = False
    """Whether results must be plain tensors and the harness as it was: so for the candidate."""


InputKind = Literal["random", "structured", "large", "other shape"]


class Probe(Record):
    """One comparison of both results on inputs that neither file has seen before."""

    kind: InputKind
    seed: int
    problem: str = ""
    """Why the candidate's result is not the baseline's, as a clause; empty where it is."""
    largest: float | None = None
    """The largest absolute difference; None where it is not a number, or nothing could be compared."""
    error: NotNegative | None = None
    baseline_error: NotNegative | None = None
    """Relative errors of both results against the baseline in float64, in units of the type's epsilon, where that works."""
    output_bytes: Count = 0
    """Bytes of the results that are new memory."""
    skipped: str = ""
    """Why these inputs say nothing."""


class Slope(Record):
    """Milliseconds a call by the parent's clock: the time of 2K calls less that of K calls, divided by K. What is not timed
    (new inputs, emptying the cache) is in it, on both sides alike."""

    baseline_ms: tuple[float, ...]
    candidate_ms: tuple[float, ...]


class Violation(Record):
    """Something that a candidate must not do, or a limit that it exceeds."""

    rule: Literal[
        "outputs", "memory", "inputs", "deferred", "patched", "precision", "impossible", "failed", "harness", "sanitizer"
    ]
    message: str
    """Completes the line ``Constraint violated: …``."""
    detail: str = ""


EvaluationVerdict = Literal["faster", "same", "slower", "inconclusive", "unconfirmed", "violated", "not measured"]


class Rules(Record):
    """The limits of an evaluation."""

    rtol: NotNegative = 1e-3
    atol: NotNegative = 1e-5
    memory_limit_bytes: Count = 4000 << 20
    same_precision: bool = True
    """Whether a result that is much less precise than the baseline's is a violation."""


class EvaluationRecord(Record):
    """One evaluation, whole enough to be run again by ``ratchet evaluate --verify``."""

    schema_version: Literal[1] = 1
    started_at: AwareDatetime
    wall_s: NotNegative
    command: tuple[str, ...]
    evaluator: str
    """SHA-256 over the files of the installed ratchet package."""
    environment: Environment
    baseline: SourceFile
    candidate: SourceFile
    maker: SourceFile | None = None
    maker_function: str = ""
    function: str
    inputs: tuple[InputSpec, ...] = ()
    rules: Rules
    seeds: tuple[int, ...]
    """Seeds of all inputs; drawn after the sources were read."""
    verdict: EvaluationVerdict
    headline: str
    """One sentence."""
    speedup: Positive | None = None
    speedup_low: Positive | None = None
    speedup_high: Positive | None = None
    """The interval of the speed-up, baseline time / candidate time."""
    baseline_ms: Positive | None = None
    optimized_ms: Positive | None = None
    baseline_peak_bytes: Count | None = None
    peak_bytes: Count | None = None
    comparison: Comparison | None = None
    violations: tuple[Violation, ...] = ()
    probes: tuple[Probe, ...] = ()
    slope: Slope | None = None
    kernels: dict[Side, tuple[str, ...]] = {}
    """Names of the kernels that each side launched: information, no judgement."""
    samples: dict[Side, tuple[WorkerSamples, ...]] = {}
    warnings: tuple[str, ...] = ()
