"""The evaluation of a candidate file against a baseline file: what was called with which inputs, what was seen, and the verdict.

`ratchet.lab.referee` fills in what it sees, `ratchet.lab.judge` decides, `ratchet.lab.certificate` seals. ``--json`` prints the
record, ``--certify`` writes it with both sources. Pure.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, ValidationError

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment
from ratchet.core.records.run import Side
from ratchet.core.records.verdict import Comparison

_INPUT = re.compile(r"(?P<shape>\d+(?:x\d+)*)(?::(?P<dtype>[a-z]+\d*\w*))?(?::(?P<low>-?\d+)\.\.(?P<high>-?\d+))?")
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_INTEGERS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (64, 32, 16, 8)} | {
    "uint8": (0, 255),
    "bool": (0, 1),
}
"""The least and the largest value of each type."""
_Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class InputSpec(Record):
    """One argument of the function: a tensor of random content, or a number."""

    shape: tuple[Annotated[int, Field(ge=1, le=2**40)], ...] = ()
    dtype: str = "float32"
    low: _Int64 = 0
    high: _Int64 = 2
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
    try:
        found = InputSpec(shape=tuple(int(size) for size in match["shape"].split("x")), dtype=dtype, low=low, high=high)
    except ValidationError:
        raise ValueError(f"{text!r} is not an input: sizes go from 1 to 2^40, values from -2^63 up to 2^63 - 1") from None
    least, largest = _INTEGERS.get(dtype, (low, high))
    if low < least or high > largest + 1:
        raise ValueError(f"{text!r} is not an input: {dtype} holds {least} to {largest}")
    return found


class SourceFile(Record):
    """A Python file as it was when the evaluation began: what runs is this text, whatever happens to the file."""

    path: str
    sha256: str
    text: str = ""
    """Empty where the record is printed without sources."""


InputKind = Literal["random", "structured", "large", "mixed", "other shape"]
"""Mixed ones are among timed calls only, the last one is in earlier records only."""


class Probe(Record):
    """One comparison of both results on inputs that neither file has seen before."""

    kind: InputKind
    seed: int
    problem: str = ""
    """Why the candidate's result is not the baseline's, as a clause; empty where it is."""
    largest: NotNegative | None = None
    """The largest absolute difference of finite elements; None where nothing could be compared."""
    error: NotNegative | None = None
    baseline_error: NotNegative | None = None
    """Relative errors of both results against the baseline in float64, in units of the type's epsilon, where that works."""


class Timed(Record):
    """The times of one pair by the referee's clock: seconds from a message with inputs until all of its results were there."""

    process: Count
    """Number of the fresh processes, one a side, that were timed."""
    calls: Annotated[int, Field(ge=1)]
    """K: the first time of a side is that of one message with K calls, the second that of one with 2K."""
    baseline_s: tuple[Positive, Positive]
    candidate_s: tuple[Positive, Positive]


class TimingPlan(Record):
    """The plan of the timing, fixed before the first time was taken."""

    pairs: Annotated[int, Field(ge=1)]
    processes: Annotated[int, Field(ge=1)]
    """Fresh processes of each side among which the pairs are shared."""
    calls: Annotated[int, Field(ge=1)]
    """The least K; each pair draws its own, up to half as many more."""
    checked: Count
    """Calls of each message whose results are compared; they are drawn once the results are there."""
    round_trip_s: NotNegative = 0.0
    """Time of a message with no call."""
    transport_s: NotNegative = 0.0
    """Time that a runner takes to hand over the results of one call; both sides' times contain it."""


class Violation(Record):
    """Something that a candidate must not do, or a limit that it exceeds."""

    rule: Literal["outputs", "memory", "inputs", "precision", "failed", "sanitizer"]
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


class Observed(Record):
    """All that the referee saw: the verdict follows from it."""

    rules: Rules
    seeds: tuple[int, ...]
    """Seeds of all inputs; drawn after the sources were read."""
    plan: TimingPlan | None = None
    samples: tuple[Timed, ...] = ()
    alone_s: tuple[Positive, ...] = ()
    """Seconds of one call of the baseline, timed again when no process of the candidate was left."""
    probes: tuple[Probe, ...] = ()
    checked_calls: Count = 0
    """Timed calls whose results were compared."""
    violations: tuple[Violation, ...] = ()
    peaks: dict[Side, Count] = {}
    held: dict[Side, Count] = {}
    """Bytes that a side still held after its last timed call, as `peaks` counts them."""
    setup_s: dict[Side, NotNegative] = {}
    """Seconds in which a fresh process imported the file: what it sets up once, outside of every time."""
    trouble: str = ""
    """Why the baseline, or the machine, gave nothing to compare with."""
    contained: tuple[str, ...] = ()
    """What confined the processes: see docs/evaluate.md."""


class EvaluationResult(Record):
    """The verdict and its figures, which follow from what was seen: `ratchet.lab.judge.judged`."""

    verdict: EvaluationVerdict
    headline: str
    """One sentence."""
    speedup: Positive | None = None
    speedup_low: Positive | None = None
    speedup_high: Positive | None = None
    """The interval of the speed-up, baseline time / candidate time."""
    baseline_ms: Positive | None = None
    optimized_ms: Positive | None = None
    comparison: Comparison | None = None
    """Candidate time / baseline time, of all calls of both messages of a pair."""
    slope: Comparison | None = None
    """The same of one call more: the time of 2K calls less that of K calls, divided by K."""


class EvaluationRecord(EvaluationResult):
    """One evaluation, whole enough to be judged and run again by ``ratchet evaluate --verify``."""

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
    files: dict[str, str] = {}
    """SHA-256 of other files of the user that the processes say they opened."""
    observed: Observed
    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()
    seals: dict[str, str] = {}
    """Of a certificate: the SHA-256 of each other field, and under an empty name that of all of these."""
