"""One run (``results/current.json``): every sample with the pair and block it came from, and what was compared where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AwareDatetime, Field, model_validator

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment, Telemetry
from ratchet.core.records.samples import Block, SampleMs, Side, Workers, WorkerSamples, packed_samples
from ratchet.core.workload import Parameter

__all__ = ["Block", "SampleMs", "Side", "WorkerSamples", "packed_samples"]
"""Parts of a run that stand in a file of their own."""
Work = Annotated[float, Field(ge=0, lt=1e200)]
Rate = Annotated[float, Field(ge=0, lt=1e250)]  # work in the shortest time is less
UNSEEN = "\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""The fillers of Hangul and Khmer: letters to Unicode, which nobody sees."""
CASE_LETTER = rf"(?![{UNSEEN}])[\w.+-]"
CASE_NAME = re.compile(rf"(?:{CASE_LETTER}){{1,100}}/(?:(?:{CASE_LETTER}){{1,100}}|\*)")
"""Names that `ratchet.core.workload.benchmark` accepts; ``*`` stands for the configs of a file that could not be read."""


class Mute(Record):
    """A case whose slowdowns fail nothing until a date."""

    case: Annotated[str, Field(min_length=1, max_length=200)]
    """Its name, or a pattern such as ``norm/*``."""
    owner: Annotated[str, Field(min_length=1, max_length=100)]
    """Who takes care of it."""
    reason: Annotated[str, Field(min_length=1, max_length=300)]
    until: date
    """The last day."""

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.case)


OverheadName = Literal["compile_time", "host_time"]
"""What is timed in pairs of its own: the first use of a case, and the host's part of a call."""
OVERHEADS: tuple[OverheadName, ...] = get_args(OverheadName)
GateName = Literal["memory", "spills", "registers", "code_size", "launches", OverheadName]
"""What may be gated besides time."""
Gate = Literal["off", "warn"] | Annotated[float, Field(ge=0, le=100)]
"""Whether a growth is said (``warn``), or the growth from which a case fails, as a fraction of the reference's figure."""


class Resources(Record):
    """Figures of the kernels of one call, as the driver tells them."""

    spills: Count
    """Bytes of local memory that a thread uses, where registers run out; the most of any kernel."""
    registers: Count
    """Registers that a thread uses; the most of any kernel."""
    code_size: Count
    """Bytes of machine code of the kernels that are the author's."""
    launches: Count
    """Kernels that a call launches."""


class OverheadPair(Record):
    """One figure of `OverheadName`, as a fresh process of each side has it."""

    head_ms: SampleMs
    reference_ms: SampleMs


class Policy(Record):
    """When a case is red, when it is an improvement, and what an undecided case means for the run."""

    regression: Annotated[float, Field(gt=0, lt=1)] = 0.03
    """The gate: a head slower than the reference by more than this fraction is a regression."""
    improvement: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """A head that takes at least this fraction less time is an improvement."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    false_alarm: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """How often a whole run of unchanged code may be red: shared among its looks and its cases (Bonferroni)."""
    on_inconclusive: Literal["pass", "fail"] = "pass"
    """Whether a run with inconclusive cases exits 0 or 3. A case that looks slower without proof exits 3 in any case."""

    memory_limit_bytes: Count | None = None
    """Most memory that a call of a case without a limit of its own may hold; None: any."""
    mutes: tuple[Mute, ...] = ()
    gates: dict[GateName, Gate] = {}
    """Gates on what a case takes besides time; what is not named is as in `judge.gates.WARNS`."""
    follows_history: bool = False
    """Each case has a gate of its own, from its history; ``regression`` is that of cases with a short one."""
    case_gates: dict[str, Annotated[float, Field(gt=0, lt=1)]] = {}
    """Case → its own gate."""

    def of_case(self, name: str) -> Policy:
        gate = self.case_gates.get(name)
        return self if gate is None else self.model_copy(update={"regression": gate})

    @property
    def part(self) -> float:
        """The least slowdown, as a fraction, that counts as one part of a slowdown that several changes made together."""
        return self.regression / 4


SIDES: tuple[Side, ...] = ("reference", "head")


FIRST_SESSION, SESSION_PAIRS = 8, 3
"""Pairs of the first session, and of each later one, before which all hosts are started anew for cases that look changed.

What a host has of its own (a layout of memory, a choice made while importing) is then drawn anew: docs/decisions/0003-rule.md.
"""


class Tree(Record):
    """The code of one side."""

    commit: str
    """Full hash of the commit; for a dirty tree, of the commit it is based on."""
    subject: str = ""
    dirty: bool = False
    """Uncommitted changes were part of what was measured."""
    content: str = ""
    """Hash of the tree as measured, uncommitted changes included."""


class Plan(Record):
    """How the run was measured."""

    pairs: Count
    """Most pairs of one case: a case that is decided earlier is measured no further."""
    blocks: Count
    """Most blocks of each side in a pair; half of them where a GPU did not wait for the host."""
    block_ms: Positive
    placements: Count = 1
    """Most places in memory at which a worker builds a workload, taken in turn by its blocks."""
    budget_s: NotNegative = 0.0
    """Measuring of undecided cases ended after so long; 0: never."""
    sessions: bool = False
    """Hosts were started anew for cases that looked changed, again and again (`FIRST_SESSION`)."""
    seed: int
    """Seed of the random inputs."""
    order_seed: Count = 0
    """Drew which side started and was timed first in each pair, and the order of cases."""
    clock: str
    """``event``, ``graph`` or ``cpu``; a workload may ask for its own."""
    cache: Literal["cold", "warm"]
    tunes_each_process: bool = False
    """Triton's autotuner chose its configurations anew in each process."""
    restart_after: object = Field(default=None, exclude=True)
    """Of earlier files: read, and never written."""


Item = TypeVar("Item")


class Shard(Record):
    """One of several parts of a suite that are measured apart, on one GPU or runner each."""

    number: Annotated[int, Field(ge=1)]
    of: Annotated[int, Field(ge=1, le=10_000)]

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Shard:
        if self.number > self.of:
            raise ValueError(f"there is no shard {self.number} of {self.of}")
        return self

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def part(self, items: Sequence[Item]) -> list[Item]:
        """Return every ``of``-th item: neighbours, which are often equally slow, go to different shards."""
        return list(items[self.number - 1 :: self.of])


class Config(Record):
    """A named set of parameters."""

    name: str
    parameters: dict[str, Parameter] = {}


class WorkloadIdentity(Record):
    """The definition of the timed work. Where it differs between sides, times do not compare."""

    parameters: dict[str, Parameter]
    device: str
    dtype: str
    flops: Work | None = None
    """None: not declared, and so for bytes."""
    bytes: Work | None = None
    clock: str
    cache: Literal["cold", "warm"]

    @property
    def declares_work(self) -> bool:
        """Return whether it says how much there is to do, so that it has a place on a roofline."""
        return bool(self.flops or self.bytes)

    def differences(self, other: WorkloadIdentity) -> list[str]:
        """Return one line for each part that differs: ``flops: 2 → 3``."""
        mine, theirs = self.model_dump(), other.model_dump()
        return [f"{name}: {mine[name]} → {theirs[name]}" for name in mine if mine[name] != theirs[name]]


class Performance(Record):
    """Figures of one side over the medians of its workers."""

    samples: Count
    workers: Count
    mean_time_ms: SampleMs
    median_time_ms: SampleMs
    min_time_ms: SampleMs
    std_time_ms: NotNegative
    ci_95_low: Positive
    ci_95_high: Positive
    throughput_gflops: Rate
    bandwidth_gb_s: Rate
    peak_memory_bytes: Count


class Failure(Record):
    """Why one side of a case gave no time."""

    side: Side
    stage: str
    """``import``, ``build``, ``prepare``, ``check``, ``measure``."""
    message: str
    last_lines: tuple[str, ...] = ()


class LostWorker(Record):
    """A worker that ended, fell silent or ran out of memory before it had answered, so that it was tried again."""

    side: Side
    pair: Count | None = None
    """None: it was lost before the first pair, while the case was built and checked."""
    stage: str
    """As in a `Failure`."""
    how: str
    """``was killed (SIGKILL)``, ``gave no answer within 120 s``, …"""
    last_lines: tuple[str, ...] = ()


class CaseRun(Record):
    """Everything measured of one case."""

    name: str
    benchmark: str
    config: Config
    workload: WorkloadIdentity | None = None
    """The head's; the reference's stands beside it only where the case exists there."""
    reference_workload: WorkloadIdentity | None = None
    tuning: dict[str, Parameter] = {}
    performance: Performance | None = None
    reference_performance: Performance | None = None
    head: Workers = ()
    reference: Workers = ()
    failures: tuple[Failure, ...] = ()
    lost: tuple[LostWorker, ...] = ()
    """Workers that were lost, in this order; what they were to measure was tried again, twice at most for each side."""
    skipped: str | None = None
    """Why this machine cannot run the case."""
    unfit: str | None = None
    """Why the measurement cannot be trusted, and what to do."""
    errors_before: dict[Side, NotNegative] = {}
    """‖out − ref‖ / ‖ref‖ of each side before anything was timed; without a reference, of the head against the other side."""
    has_reference: bool = True
    """The head's result was compared with that of its workload's reference."""
    agreement: NotNegative | None = None
    """Without one: the tolerance within which the results of both sides agree; None if only the head has a result."""
    memory_before: dict[Side, Count] = {}
    """Most bytes that a call of each side held before anything was timed."""
    memory_limit_bytes: Count | None = None
    """Most memory that a call of the head may hold, by its workload; None: that of the policy."""
    pair_s: NotNegative = 0.0
    """Seconds that a pair of this case took, processes included; 0 where it was not written down."""
    identity: dict[Side, str] = {}
    """Digest of each side's machine code and launches, where the case exposes them."""
    opaque: str | None = None
    """Why a case has no such digest."""
    host_same: bool = False
    """Neither side's process got at anything that differs between the trees, both looked at in one run."""
    host_difference: str | None = None
    """The first difference that one of them got at, or the reason why nobody knows."""
    host_code: dict[Side, str] = {}
    """In older records: a digest of each side's host code. Equal ones meant that it is the same."""
    resources: dict[Side, Resources] = {}
    """What the kernels of each side take; empty on a CPU, and where nobody could look."""
    overheads: dict[OverheadName, Annotated[tuple[OverheadPair, ...], Field(max_length=100)]] = {}
    """Figures of pairs of fresh processes, where a gate asks for them."""
    reference_tree: Tree | None = None
    """The code of the reference side, where it is not that of the run."""
    in_head: bool = True
    in_reference: bool = True
    telemetry: Telemetry | None = None

    def failure(self, side: Side) -> Failure | None:
        """Return the first reason why a side gave no time; None where it did."""
        return next((failure for failure in self.failures if failure.side == side), None)

    def may_run(self, side: Side) -> bool:
        """Return whether a side has the case, and nothing is wrong with it there."""
        return (self.in_head if side == "head" else self.in_reference) and self.failure(side) is None

    @property
    def identical(self) -> bool:
        """Return whether both sides do the same work: the same launches of the same machine code, or the same host code."""
        same = self.launches_the_same or self.host_same or _are_equal(self.host_code)
        return same and self.workload == self.reference_workload

    @property
    def launches_the_same(self) -> bool:
        """Return whether both sides have the same machine code, launched in the same way."""
        return _are_equal(self.identity)


def _are_equal(digests: dict[Side, str]) -> bool:
    return len(digests) == len(SIDES) and len(set(digests.values())) == 1


class RunRecord(Record):
    """``results/current.json``: one run, whole enough to be judged again."""

    schema_version: Literal[1] = 1
    kind: Literal["check", "run"]
    started_at: AwareDatetime
    wall_s: NotNegative
    command: tuple[str, ...]
    environment: Environment
    plan: Plan
    policy: Policy
    head: Tree
    reference: Tree | None = None
    reference_missing: str | None = None
    """Why a check has no reference side, so that the stored baseline was used."""
    bench_from: Literal["head"] | None = None
    """``head``: every reference was measured with the benchmarks of the head in place of its own."""
    shard: Shard | None = None
    """Which part of the suite this is; `ratchet ci merge` puts the parts together."""
    cases: tuple[CaseRun, ...]
    best: tuple[CaseRun, ...] = ()
    """Cases that became a little slower, measured once more against the best commit of the baseline."""
    anchors: tuple[CaseRun, ...] = ()
    """Cases of the main branch, measured once more against the fixed commit that the history counts from."""
    warnings: tuple[str, ...] = ()
