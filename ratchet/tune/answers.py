"""The answers of workers that tune: see `ratchet.core.bench.messages`."""

from __future__ import annotations

from ratchet.core.bench.messages import Line
from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.run import WorkloadIdentity
from ratchet.core.workload import Parameter
from ratchet.tune.records import Ending


class SpaceFound(Record):
    """The search space of a case; ``error`` says why none of it can be tried."""

    workload: WorkloadIdentity
    space: dict[str, tuple[Parameter, ...]]
    constraints: tuple[str, ...]
    default: dict[str, Parameter]
    foreign: tuple[str, ...]
    count: Count = 0
    """Number of configurations that the constraints leave, or of those in the sample if the space was sampled."""
    exact: bool = True
    error: Line = ""
    hint: Line = ""


class Tried(Record):
    """The outcome of a configuration before it is timed."""

    ending: Ending
    reason: Line = ""
    error: NotNegative = 0.0
    first_s: NotNegative = 0.0
    """Seconds of its first call, compilation included."""
    call_ms: Positive | None = None


class Compiled(Record):
    """The outcome of compiling a configuration; ``dry``: as far as was verified, nothing was launched."""

    ending: Ending
    reason: Line = ""
    compile_s: NotNegative
    dry: bool
