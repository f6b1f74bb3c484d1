"""``results/static.json``: what each case of one commit touched of its tree, and the kernels that Triton compiled for it.

`ratchet run --static` writes it where the cases can run; `ratchet check --static` reads it where they cannot. Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet.core.bench.messages import Line
from ratchet.core.records import Count, Record
from ratchet.core.records.environment import Environment
from ratchet.core.records.run import Plan, Tree, WorkloadIdentity
from ratchet.identical.footprint import Footprint

STATIC, REPORT = "static.json", "static_report.json"
LONGEST_S = 86_400
"""A verdict without a GPU takes no day."""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CompiledCode(Record):
    """A kernel as Triton compiled it, and its resources."""

    code: Digest
    """Of the machine code, without lines and paths of its source."""
    launch: Digest
    """Of everything else that a launch uses: options, shared and scratch memory, version of Triton."""
    registers: Count
    """Registers that a thread uses."""
    spills: Count
    """Bytes of local memory that a thread uses."""
    shared: Count
    """Bytes of shared memory that a block uses."""
    code_size: Count
    """Bytes of instructions."""


class Instructions(Record):
    """The instructions of a kernel, without padding."""

    of: Literal["machine code", "PTX"]
    """PTX where this machine has no ``nvdisasm``."""
    counts: Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,40}$")], Count], Field(max_length=1000)]
    """By opcode, without what follows its first dot."""


class Recompiled(Record):
    """The answer of a worker: a recorded kernel as its tree has it."""

    code: CompiledCode
    instructions: Instructions | None = None
    """None where it was not compiled, since nothing that it is made of differs from what was recorded."""


class KernelKeys(Record):
    """The answer of a worker: for each kernel that it was asked about, what tells apart all that it is made of."""

    keys: tuple[Annotated[str, Field(max_length=100_000)], ...]
    """No text where that is not known."""


class Kernel(Record):
    """A kernel as Triton compiled it: all that is needed to do so again for the same target, on any machine."""

    file: Annotated[str, Field(max_length=4096)]
    """Within the tree."""
    function: Annotated[str, Field(max_length=1000)]
    """Its qualified name."""
    module: Annotated[str, Field(max_length=1000)]
    """The module that it was imported with."""
    source: Annotated[str, Field(max_length=100_000)]
    """JSON that `child` wrote and reads: signature, constants, attributes, options, target."""
    compiled: CompiledCode

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.function} ({self.file})"


class CaseCapture(Record):
    """The answer of a worker: what it touched since its host had imported the tree, and its kernels."""

    imported: Footprint
    """What the import of the tree touched."""
    case: Footprint
    kernels: tuple[Kernel, ...] = ()
    unknown: Line = ""
    """Why its kernels cannot be compiled elsewhere."""


class RecordedCase(Record):
    """The record of a case, beside what the import of its tree touches."""

    workload: WorkloadIdentity | None = None
    touched: Footprint = Footprint()
    kernels: tuple[Count, ...] = ()
    """Places in `Recorded.kernels`: all that its process compiled, those that an autotuner dropped too."""
    unknown: str = ""
    """Why nothing can be said about it without a GPU."""


class Recorded(Record):
    """The whole file."""

    schema_version: Literal[1] = 1
    tree: Tree
    environment: Environment
    """Where it was recorded."""
    plan: Plan
    imported: Footprint
    """What the import of the tree touched."""
    kernels: tuple[Kernel, ...]
    cases: dict[str, RecordedCase]


class KernelChange(Record):
    """A kernel whose source changed, as Triton compiles it for each side."""

    kernel: str
    reference: Recompiled | None
    """None: nothing could be compiled."""
    head: Recompiled | None
    same: bool
    """The head's is what was recorded on the GPU."""
    trouble: str = ""


class StaticCase(Record):
    """The verdict on a case without a GPU."""

    name: str
    identical: bool
    reasons: tuple[str, ...] = ()
    """What the case would notice of the difference; none: it is identical, or only kernels differ."""
    kernels: tuple[KernelChange, ...] = ()
    """Kernels that were compiled, since their source changed."""


class StaticReport(Record):
    """The outcome of ``check --static``."""

    schema_version: Literal[1] = 1
    reference: Tree
    head: Tree
    recorded: Tree
    machine: str
    cases: tuple[StaticCase, ...]
    install: tuple[str, ...] = ()
    """Packages, with their versions, without which no kernel could be compiled here."""
    seconds: Annotated[float, Field(ge=0, le=LONGEST_S)]

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the cases for which the GPU job must run."""
        return tuple(case.name for case in self.cases if not case.identical)
