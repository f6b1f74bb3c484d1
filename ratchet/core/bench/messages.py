"""Define the answers of hosts and workers, parse them strictly, and compare the results that two of them describe.

A benchmark's code runs in the process that sends them, as plain dictionaries. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, ValidationError, model_validator

from ratchet.core.bench.wire import ProtocolError
from ratchet.core.records import RULES, Count, NotNegative, Record
from ratchet.core.records.run import Resources, SampleMs, WorkloadIdentity
from ratchet.core.untrusted import clean
from ratchet.core.workload import Parameter

Line = Annotated[str, AfterValidator(clean)]
"""Text from code that is not ours, made safe to print."""
Bytes = Annotated[int, Field(ge=0, le=2**50)]
"""At most 1 PiB: more than any device has."""


@dataclass(frozen=True)
class CaseListed:
    """One benchmark with one config, as `child.registry` finds it; the controller reads it with checks."""

    __pydantic_config__ = RULES

    name: str
    benchmark: str
    config: str
    file: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    skipped: str = ""
    """Why this machine cannot run the case."""
    import_error: str = ""
    """The error of importing its file, where that is why the case is skipped: a module is not installed."""
    fault: str = ""
    """Why its declaration cannot work."""
    variants: tuple[Line, ...] = ()
    """Ways in which the benchmark does the same work, its own first."""
    imports_first: tuple[Line, ...] = ()
    """Modules that its function imports before it does anything else."""


@dataclass(frozen=True)
class FileBroken:
    """A file that raised while it was imported, and the cases it would have had (as far as its text says)."""

    __pydantic_config__ = RULES

    file: str
    message: str
    last_lines: tuple[str, ...]
    cases: tuple[str, ...] = ()


class Listing(Record):
    """A host's first message: the cases of its tree, or why there are none."""

    cases: tuple[CaseListed, ...] = ()
    broken: tuple[FileBroken, ...] = ()
    undeclared: dict[str, Line] = {}
    """Function of a bench file that is no benchmark → its file."""
    torch: str = ""
    cuda: str | None = None
    triton: str | None = None
    foreign: tuple[str, ...] = ()
    changed: dict[str, tuple[Line, ...]] = {}
    """File → what its import sets, which holds for its own cases alone."""
    threads: Count = 0
    """Most threads that an import sets torch to use."""
    error: str = ""
    hint: str = ""
    unreadable: bool = False
    """The error is about a file of ours in the tree."""
    touched_cuda: bool = False
    cuda_used_at: str = ""
    """File and line that made torch begin CUDA, if that is known."""


class Ready(Record):
    """The answer of a worker that has a usable device, or the cores that it was asked to use."""

    ready: bool
    l2_bytes: Count | None = None


class Evidence(Record):
    """One part of a result, reduced to what another process needs to compare it: see `child.outputs`.

    Either ``sketch`` or ``digest`` is set; both, where some elements are infinite: the digest is that of their places.
    """

    place: Line
    kind: Line
    """Type and shape: ``float32 (3, 4)``."""
    limit: NotNegative = 0.0
    """Largest relative error that passes."""
    norm: NotNegative = 0.0
    sketch: Annotated[tuple[float, ...], Field(max_length=256)] = ()
    digest: str = ""
    """Digest of a part that has to be the same."""


class BuiltCase(Record):
    """A case that a worker has built and called a few times; ``error`` is 0 where no check was asked for."""

    workload: WorkloadIdentity
    tuning: dict[str, Parameter]
    error: NotNegative
    peak_memory_bytes: Bytes
    stages: tuple[str, ...]
    foreign: tuple[str, ...]
    built: tuple[str, ...] = ()
    """Libraries outside the trees of whose name the tree has a source."""
    fresh: tuple[str, ...] = ()
    """Other files outside the trees that go by a name, and were written since the tree was made."""
    times_itself: bool = False
    """It chose among variants of a kernel by their times, which nothing else may disturb."""
    compiles: bool = False
    """torch's compiler is loaded in its process."""
    late: tuple[Line, ...] = ()
    """Modules that it and earlier cases of its process have imported before a case changed anything."""
    choices: dict[Line, Line] = {}
    """Kernel of Triton → the configurations that its autotuner uses, where there are several to choose from."""
    memory_limit_bytes: Bytes | None = None
    has_reference: bool = True
    places: Annotated[int, Field(ge=1)] = 1
    evidence: tuple[Evidence, ...] = ()
    """Of the result, where it was checked and can be compared with that of another process."""


class ImportedLate(Record):
    """How a host fared that was to import `BuiltCase.late`."""

    seconds: NotNegative
    changed: tuple[Line, ...] = ()
    """What that changes in the whole process; the host then did not do it."""
    settings: tuple[Line, ...] = ()
    """What packages set for their own sake."""


OPENED_ELSEWHERE = "something that is not this process's Python opened it"
"""Part of a difference that a case may not have noticed itself, but a worker beside it."""


class HostCode(Record):
    """The differences between two trees that a case noticed: see `ratchet.identical.proof`."""

    noticed: tuple[Line, ...] = ()
    always: bool = False
    """All cases of its tree notice that."""
    unknown: Line = ""
    """Why nobody knows."""

    def difference(self, reference: HostCode) -> str:
        """Return why the head's host code, this one, may do something else than the reference's; no text if it cannot."""
        if self.unknown or reference.unknown:
            return f"its host code is not compared: {self.unknown or reference.unknown}"
        noticed = dict.fromkeys(self.noticed + reference.noticed)
        more = f"; and {len(noticed) - 1} more" if len(noticed) > 1 else ""
        return f"{next(iter(noticed))}{more}" if noticed else ""


class Identified(Record):
    """The identity of the last prepared case: see `ratchet.identical.launches`. Either ``digest`` or ``opaque`` is set."""

    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
    opaque: Line
    launches: tuple[Line, ...] = ()
    waits_for_host: bool = False
    """The GPU waits for the host while it is timed, so its launches are not all that counts."""
    busy_cores: NotNegative | None = None
    """Cores that the process kept busy, on average, while the GPU waited for it; None where it does not."""
    spent: bool = False
    """The worker may be damaged: end it, and prepare the next case in a fresh one."""
    resources: Resources | None = None
    """What its kernels take; None where that is not known."""
    one_by_one: bool = False
    """Each launch of a call waits for the one before it, on one stream or in a graph: one work queue of the GPU is enough."""

    @model_validator(mode="after")
    def _is_either(self) -> Identified:
        if bool(self.digest) == bool(self.opaque):
            raise ValueError("an identity has a digest, or a reason why it has none")
        return self


class Restored(Record):
    """The answer of a worker that is ready for another case, unless it is ``spent``; ``changed``: what the last case left so."""

    changed: tuple[Line, ...]
    spent: bool


class Sampled(Record):
    """The samples of a block or a stage, in milliseconds per call; ``exposed`` as in `clocks.Samples`."""

    samples_ms: Annotated[tuple[SampleMs, ...], Field(min_length=1)]
    exposed: bool = False


class Overheads(Record):
    """The cost of a case for the host in a fresh process, in milliseconds."""

    compile_time: SampleMs | None = None
    """What its first use takes more than its second one; None where that was not asked for."""
    host_time: SampleMs | None = None
    """From a call to its return, on an idle GPU; None where that was not asked for."""


class KernelTimes(Record):
    """Times that the kernels of a call took, in milliseconds; none where no tracer can tell."""

    samples_ms: tuple[SampleMs, ...]


class Checked(Record):
    """The result on inputs from a fresh seed, after timing; its ``evidence`` where that was asked for."""

    error: NotNegative
    evidence: tuple[Evidence, ...] = ()


DECLARATION = "declaration"
"""The stage of a workload whose parameters contradict each other."""


class Trouble(Record):
    """A worker's own report of what went wrong."""

    stage: str
    trouble: Line
    last_lines: tuple[Line, ...]
    out_of_memory: bool = False


Answer = TypeVar("Answer", bound=Record)


def parse(message: dict[str, object], expected: type[Answer]) -> Answer:
    """Return the message as the type ``expected``. Raises ProtocolError where it is not of that type."""
    try:
        # As text, because JSON mode is the strict one that still knows tuples.
        return expected.model_validate_json(json.dumps(message), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"not the answer expected ({place}: {first['msg']})") from None


@dataclass(frozen=True)
class Disagreement:
    """The largest relative error between two results, and the largest limit among their parts."""

    error: float = 0.0
    limit: float = 0.0
    problem: str | None = None
    """Where and by how much they are too far apart, as a clause; None where they agree."""


def between_sides(head: Sequence[Evidence], reference: Sequence[Evidence]) -> Disagreement:
    """Compare the results of the two sides of a case whose head has no reference of its own."""
    apart = evidence_difference(head, reference, ("the head", "the reference"))
    if apart.problem is None:
        return apart
    why = "the case has no expected result, so one of the two is wrong, or their inputs differ"
    return replace(apart, problem=f"wrong result: {apart.problem}; {why}")


def evidence_difference(one: Sequence[Evidence], other: Sequence[Evidence], names: tuple[str, str]) -> Disagreement:
    """Compare two results by the limits of the first; errors are relative to the second. ``names``: whose results they are."""
    first, second = names
    there = {part.place: part for part in other}
    error = limit = 0.0
    for part in one:
        if part.place not in there:
            return Disagreement(problem=f"{first} returns {part.place}, {second} does not")
        twin = there.pop(part.place)
        if part.kind != twin.kind:
            return Disagreement(problem=f"{part.place} is {part.kind} in {first} and {twin.kind} in {second}")
        if part.digest != twin.digest:
            what = "infinite in different places" if part.sketch else "not the same"
            return Disagreement(problem=f"{part.place} is {what} in {first} and {second}")
        # An estimate of ‖part − twin‖ / ‖twin‖ from sketches; of ‖part − twin‖ where the twin is all zeros.
        apart = math.dist(part.sketch, twin.sketch) if len(part.sketch) == len(twin.sketch) else math.inf
        apart = apart / twin.norm if twin.norm > 0 else apart
        if not apart <= part.limit:
            allowed = f"(relative; {part.limit:.1e} allowed)"
            return Disagreement(apart, part.limit, f"{part.place} is off by {apart:.2e} {allowed} between {first} and {second}")
        error, limit = max(error, apart), max(limit, part.limit)
    missing = next(iter(there), None)
    return Disagreement(error, limit, f"{second} returns {missing}, {first} does not" if missing else None)
