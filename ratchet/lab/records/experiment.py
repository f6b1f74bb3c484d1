"""A session of experiments on one case: its first profile, the noise of the machine, and every experiment with its decision.

`ratchet.lab.experiment` writes it to ``results/experiments/session.json`` after each experiment; ``experiments.tsv`` and
``HANDOFF.md`` are made from it. `ratchet.lab.judge` decides. Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from ratchet.common.records import ChecklistAnswer
from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment
from ratchet.core.records.profile import Activity, Category
from ratchet.core.records.run import Tree
from ratchet.core.records.verdict import Comparison

WARM_UPS, PROFILED_CALLS, LISTED = 20, 10, 20
"""Calls before the profile, calls in it, and rows of each of its rankings."""
WHOLE = "e2e"
"""Names the whole call in place of a stage."""

Kind = Literal["transfer", "dispatch", "monolithic", "synchronisation", "compute", "architectural"]
"""Kinds of change, in the order in which they are tried."""
Status = Literal["keep", "discard", "crash"]
Branch = Literal["crash", "tests", "wrong", "e2e", "slower", "stage confirmed", "stage noise", "micro", "nothing"]


class HotSpot(Record):
    """One operator, call or kernel of the profile, summed up over the profiled calls. Times include what it calls."""

    name: str
    count: Count
    cuda_us: NotNegative
    cpu_us: NotNegative
    shapes: str = ""
    """Shapes of the arguments of one of its calls."""
    where: str = ""
    """The function of the tree that calls it, with its first line: ``bench/pipe.py:17 infer``."""


class CopyRow(Record):
    """Copies of one name, summed up over the profiled calls."""

    name: str
    count: Count
    us: NotNegative
    bytes: Count | None = None


class ProfileBaseline(Record):
    """The profile without which no experiment begins: `PROFILED_CALLS` calls after `WARM_UPS`, with stacks and shapes."""

    by_cuda: Annotated[tuple[HotSpot, ...], Field(max_length=LISTED)] = ()
    """Empty on a CPU."""
    by_cpu: Annotated[tuple[HotSpot, ...], Field(max_length=LISTED)]
    copies: Annotated[tuple[CopyRow, ...], Field(max_length=64)] = ()
    activity: Activity
    occupancy: Annotated[float, Field(ge=0, le=1)] | None = None
    """Warps of the kernels as a share of those that fit on the GPU, by their time; an estimate. None where the trace has none."""


class Target(Record):
    """One place where time may be gained: what to change next, and how much it costs now."""

    stage: str
    pattern: str
    category: Category
    cost_us: NotNegative
    """Time a call that it costs today: the most that a change can gain."""
    count: Count | None = None
    """Kernels, copies or waits a call."""
    source: Literal["profile", "advise"]
    where: str = ""


class Floors(Record):
    """Times and rates that no change to the code can beat on this machine."""

    launch_us: Positive
    """One of many operators on one element, launched one right after the other."""
    h2d_bytes_per_s: Positive | None = None
    d2h_bytes_per_s: Positive | None = None
    """A large copy from and to pinned memory; None on a CPU."""


class Equality(Record):
    """How near the result of the working tree is to the reference's, on the same inputs."""

    bitwise: bool
    close: bool
    """Within atol 1e-5 and rtol 1e-4, element by element."""
    largest: NotNegative | None = None
    """The largest absolute difference; None where it is not a number, or nothing could be compared."""
    note: str = ""
    """Which part differs, or why nothing could be compared."""


class GraphCheck(Record):
    """Answers of both sides to: can the changed stage be captured in a CUDA graph?"""

    head: Literal["safe", "breaks", "depends"]
    reference: Literal["safe", "breaks", "depends"]
    why: str = ""


class SuiteOutcome(Record):
    """The outcome of the test command. ``problem`` says why there are no counts, or why it failed."""

    passed: Count
    failed: Count
    problem: str = ""


class StageChange(Record):
    """Times of one stage, or of the whole call, on both sides."""

    name: str
    before_ms: Positive
    after_ms: Positive
    comparison: Comparison


class Noise(Record):
    """The reference against itself: the least change that an experiment can show."""

    name: str
    median_ms: Positive
    low: Positive
    high: Positive
    """The interval of the ratio, which should hold 1."""
    spread: NotNegative
    """Standard deviation of one pair."""


class Decision(Record):
    """The decision about a change, and why."""

    status: Status
    branch: Branch
    reason: str
    """One sentence."""
    note: str = ""
    """A remark about what the whole call hides, or what to look at."""


class ExperimentRecord(Record):
    """One experiment."""

    number: Annotated[int, Field(ge=1)]
    started_at: AwareDatetime
    wall_s: NotNegative
    description: str
    stage: str
    pattern: str
    category: Category
    kind: Kind
    estimate_us: NotNegative
    """Time of the stage before the change, as last measured."""
    launches: Count | None = None
    """Kernels a call of the stage, when the session began; None where they were not counted, as on a CPU."""
    reference: Tree
    head: Tree
    commit: str
    """A commit that holds what was measured, uncommitted changes included."""
    tests: SuiteOutcome | None = None
    e2e: StageChange | None = None
    calls: Count = 0
    """Calls of each side in ``e2e``."""
    stages: tuple[StageChange, ...] = ()
    confirmation: StageChange | None = None
    """The stage in the re-runs."""
    micro: StageChange | None = None
    equality: Equality | None = None
    graph: GraphCheck | None = None
    failure: str = ""
    """Why the working tree gave no time."""
    decision: Decision
    notes: tuple[str, ...] = ()

    def change_of(self, stage: str) -> StageChange | None:
        """Return the times of a stage; ``e2e`` is the whole call."""
        return self.e2e if stage == WHOLE else next((one for one in self.stages if one.name == stage), None)


class ResultRow(Record):
    """A line of ``experiments.tsv``. The names are its columns, in this order."""

    commit: str
    target_test: str
    stage: str
    gpu_baseline_us: str
    gpu_optimized_us: str
    gpu_speedup: str
    e2e_baseline_ms: str
    e2e_optimized_ms: str
    e2e_speedup: str
    tests_passed: str
    tests_failed: str
    status: str
    pattern: str
    description: str


class SessionRecord(Record):
    """``results/experiments/session.json``."""

    schema_version: Literal[1] = 1
    started_at: AwareDatetime
    command: tuple[str, ...]
    case: str
    environment: Environment
    start: Tree
    """The code that the session began with."""
    tests: tuple[str, ...] = ()
    """The words of the test command; without one, only results are compared."""
    test_limit_s: Positive = 600.0
    minutes: Positive | None = None
    """From the start on; no experiment begins later. None: no limit."""
    baseline: ProfileBaseline
    stages_activity: dict[str, Activity] = {}
    """Name of a stage → what a trace of it alone shows."""
    checklist: tuple[ChecklistAnswer, ...] = ()
    advised: tuple[Target, ...] = ()
    """What `ratchet advise` names in the case."""
    floors: Floors
    noise: tuple[Noise, ...]
    """The whole call first, then each stage."""
    experiments: tuple[ExperimentRecord, ...] = ()
    earlier: tuple[ResultRow, ...] = ()
    """Lines of sessions before this one, or of another tool."""
    warnings: tuple[str, ...] = ()

    @property
    def reference(self) -> Tree:
        """The code that the next experiment is compared with: what was kept last."""
        kept = [one.head for one in self.experiments if one.decision.status == "keep"]
        return kept[-1] if kept else self.start

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the declared stages."""
        return tuple(one.name for one in self.noise[1:])

    def launches(self, stage: str) -> int | None:
        """Return the kernels of a call of a stage, or of the whole call, when the session began; None on a CPU."""
        if not self.baseline.by_cuda:
            return None
        activity = self.baseline.activity if stage == WHOLE else self.stages_activity.get(stage)
        return None if activity is None else round(activity.launches / max(1, activity.calls))

    def time_us(self, stage: str) -> float:
        """Return the time of a stage of the current reference, as last measured."""
        for one in reversed(self.experiments):
            change = one.change_of(stage)
            if change and one.decision.status == "keep":
                return change.after_ms * 1e3
        return next((one.median_ms * 1e3 for one in self.noise if one.name == stage), 0.0)


class Luck(Record):
    """How often the best of several experiments would look as good if none of them did anything."""

    best: Annotated[int, Field(ge=1)]
    of: Annotated[int, Field(ge=1)]
    p_value: Annotated[float, Field(ge=0, le=1)]


class Rotation(Record):
    """The kind of change to try next after a kind of change was discarded several times in a row."""

    exhausted: Kind
    next: Kind | None
    """None: nothing is left of the list."""
    why: str


class Ceiling(Record):
    """A limit of the machine beside what the profile shows."""

    name: Literal["launch floor", "PCIe to the GPU", "PCIe from the GPU", "opaque engine", "occupancy"]
    reached: bool
    figures: str


class Gain(Record):
    """Gain of the kept changes since the start: the product of their ratios, each measured against the code before it."""

    name: str
    """The whole call, or a stage whose gain the whole call does not show."""
    speedup: Positive
    """Time at the start / time now."""
    low: Positive
    high: Positive


class StatusRecord(Record):
    """``ratchet experiment status``."""

    case: str
    reference: Tree
    experiments: Count
    kept: Count
    e2e_ms: Positive
    """The whole call of the current reference, as last measured."""
    gains: tuple[Gain, ...]
    """Of the whole call, where it shows a kept change; then of the stages whose kept changes it does not show."""
    minutes_left: float | None
    luck: Luck | None
    rotation: Rotation | None
    escalation: str = ""
    """Why a whole stage should become one operation; empty where nothing says so."""
    targets: tuple[Target, ...] = ()
    ceilings: tuple[Ceiling, ...]
    plateau: bool
    """The last three experiments were no use and a ceiling is reached, or no kind of change is left."""
    restore: str = ""
    """The command that brings the reference's code back; empty where the last experiment was kept."""
