"""The profile of one case: a record for each kernel, whatever tool and file it was read from, and the findings.

``results/nsight/profiles.json`` keeps the latest of every case.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Peaks
from ratchet.core.records.run import Side, Tree

Percent = Annotated[float, Field(ge=0)]
"""Percent of a peak or a whole; counters sampled in separate passes can lie a little above 100."""
Extent = tuple[Count, Count, Count]
Category = Literal["transfer", "dispatch", "sync", "memory", "compute", "correctness"]


class ProfilerRule(Record):
    """Advice of one of the profiler's own rules."""

    name: str
    title: str
    message: str
    speedup_percent: NotNegative | None = None
    """Estimated; None where the rule gives none."""
    scope: Literal["global", "local"] | None = None
    """Only a global estimate speaks of the whole kernel."""


class KernelProfile(Record):
    """One launch of one kernel. None is a figure that this report, chip or version does not have; it is never 0 for that."""

    name: str
    """As the profiler gives it, with template arguments."""
    function: str
    """The bare name, by which the two sides are matched."""
    index: Count
    """Place among the launches of the report."""
    grid: Extent | None = None
    block: Extent | None = None
    duration_s: Positive | None = None
    """Under the profiler: not to be compared with benchmark times."""
    sm_percent: Percent | None = None
    """SM throughput, of the peak that can be sustained."""
    memory_percent: Percent | None = None
    dram_percent: Percent | None = None
    l1_hit_percent: Percent | None = None
    l2_hit_percent: Percent | None = None
    tensor_percent: Percent | None = None
    """How busy the matrix units were."""
    occupancy_percent: Percent | None = None
    """Achieved: active warps of those that fit."""
    occupancy_limit_percent: Percent | None = None
    """Theoretical: what the launch allows."""
    occupancy_limiter: str | None = None
    """``registers``, ``shared memory``, ``warps`` or ``blocks``."""
    waves: NotNegative | None = None
    """Grid over the blocks that the whole GPU holds at once."""
    registers: Count | None = None
    """Per thread."""
    shared_bytes: Count | None = None
    """Per block."""
    spill_bytes: NotNegative | None = None
    """Local memory moved because registers ran out."""
    load_sectors_per_request: NotNegative | None = None
    """Global loads; 32-byte sectors for each request of a warp."""
    store_sectors_per_request: NotNegative | None = None
    coalesced_percent: Percent | None = None
    """Sectors that global accesses need over those that they moved."""
    bank_conflicts: NotNegative | None = None
    """Extra shared-memory wavefronts."""
    shared_wavefronts: NotNegative | None = None
    stalls: dict[str, NotNegative] = {}
    """Reason → average cycles that a warp waits for it between two instructions."""
    dram_read_bytes: NotNegative | None = None
    dram_write_bytes: NotNegative | None = None
    flops: dict[str, NotNegative] = {}
    """Precision (as in `Peaks`) → operations of the whole launch; a multiply-add is two."""
    instructions: NotNegative | None = None
    """Warp instructions executed."""
    passes: Count | None = None
    """How often the kernel was replayed."""
    peaks: Peaks = Peaks()
    rules: tuple[ProfilerRule, ...] = ()
    """Global ones first, the largest estimate first."""
    metrics: dict[str, float] = {}
    """Every numeric metric of the report by its own name, in base units."""

    @property
    def dram_bytes(self) -> float | None:
        """Bytes of device memory read and written together; None where one is not known."""
        if self.dram_read_bytes is None or self.dram_write_bytes is None:
            return None
        return self.dram_read_bytes + self.dram_write_bytes


class Activity(Record):
    """Times that torch.profiler saw of some calls, where there are no counters."""

    calls: Count
    wall_s: NotNegative
    """From the first to the last event of the traced calls."""
    kernels: dict[str, NotNegative] = {}
    """Name → seconds on the device; on the CPU, operators and seconds."""
    per_call: dict[str, tuple[NotNegative, NotNegative]] = {}
    """Name of ``kernels`` that each call runs equally often → the least and the most seconds of it in one of the calls."""
    ran: dict[str, Count] = {}
    """Name → how often this kernel or copy (on the CPU: operator) ran in all calls together; empty where nobody says."""
    launches: Count = 0
    copies_s: NotNegative = 0.0
    copies: dict[str, NotNegative] = {}
    """Kind of copy, such as ``Memcpy DtoD``, → its part of ``copies_s``."""
    pageable_copies: Count = 0
    """Copies between the device and host memory that is not pinned."""
    gaps_s: NotNegative | None = None
    """Device idle between the first kernel and the last; None on the CPU."""
    queued_s: NotNegative | None = None
    """The time from the end of each launch to the start of its kernel, together. Only nsys said it, in older records."""
    cpu_s: dict[str, NotNegative] = {}
    """Operator or API call → seconds on the CPU."""
    allocation_s: NotNegative = 0.0
    """CPU time in allocation calls."""


class Profile(Record):
    """One side of one case, or one file."""

    schema_version: Literal[1] = 1
    tool: Literal["ncu", "nsys", "torch"]
    """``nsys`` stands in older records only."""
    tool_version: str | None = None
    reader: str = ""
    """The reader of the file: ``ncu_report``, ``csv`` or ``torch``."""
    gpu: str | None = None
    compute_capability: str | None = None
    sm_count: Count | None = None
    kernels: tuple[KernelProfile, ...] = ()
    activity: Activity | None = None
    warnings: tuple[str, ...] = ()


Effect = Literal["slower", "faster"]
"""The effect of a difference on the time of the head."""


class Finding(Record):
    """One thing that a profile shows, or that differs between two."""

    key: str
    """A short stable name: ``spills``, ``coalescing``, ``occupancy``, ``launches`` …"""
    what: str
    """One sentence with the figures of both sides."""
    why: str
    """Why it costs time."""
    advice: str
    """Something to try."""
    confidence: Literal["high", "medium", "low"]
    weight: NotNegative
    """From 1 to 2: a difference between the sides, by how much of the case's change it may explain. Below 1: it stands out in the
    head, or it goes against the case's change.
    """
    kernel: str | None = None
    effect: Effect | None = None
    """The effect of a difference between the sides on the head; None for what stands out in the head alone."""

    @property
    def needs_action(self) -> bool:
        """Return whether ``advice`` is something to try; it is not for what makes the head faster."""
        return self.effect != "faster"


class CaseProfile(Record):
    """Both sides of one case, and what they show."""

    schema_version: Literal[1] = 1
    case: str
    head: Profile | None = None
    reference: Profile | None = None
    head_tree: Tree | None = None
    reference_tree: Tree | None = None
    ratio: Positive | None = None
    """Head time / reference time, as the benchmark measured it; None where it did not change, or nothing was timed."""
    findings: tuple[Finding, ...] = ()
    """What explains the change of the case first, then what stands out in the head, then what goes against the change."""
    steps_down: tuple[str, ...] = ()
    """What could not be had, why, and the cure: one sentence each."""
    files: dict[str, str] = {}
    """What → path relative to the results folder: ``head.ncu-rep``, ``page.png`` …"""
    failed: dict[Side, str] = {}
    """Why a side has no profile at all."""

    @property
    def direction(self) -> Effect | None:
        """The way in which the case changed; None where it did not, or nothing was timed."""
        return None if self.ratio is None or self.ratio == 1 else "slower" if self.ratio > 1 else "faster"

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The differences that may explain the change of the case: none of them goes against it."""
        agreeing = (None, self.direction or "slower", self.direction or "faster")
        return tuple(finding for finding in self.findings if finding.weight >= 1 and finding.effect in agreeing)


class Profiles(Record):
    """One entry a case. Which code an entry is of, its trees say; every single metric is in the CSV file beside it."""

    schema_version: Literal[1] = 1
    profiles: tuple[CaseProfile, ...] = ()

    def of(self, case: str) -> CaseProfile | None:
        return next((profile for profile in self.profiles if profile.case == case), None)
