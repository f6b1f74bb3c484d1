"""Keep what was measured of one case: the blocks of each worker, what failed and what was lost, and the record of all that.

`turns` adds blocks, `duet` and `ready.pairs` the rest. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ratchet.core.bench.messages import Checked
from ratchet.core.device.telemetry import Sampler, Window
from ratchet.core.records.run import SIDES, Block, CaseRun, Failure, LostWorker, Side, WorkerSamples


@dataclass
class TimedBlock:
    """A block, and the time in which it was measured."""

    block: Block
    window: Window


@dataclass
class WorkerResult:
    """The samples of one worker for one case, before blocks are marked as slowed down."""

    pair: int
    started_first: bool
    ready_s: float
    peak_memory_bytes: int
    blocks: list[TimedBlock] = field(default_factory=list)
    stages_ms: dict[str, tuple[float, ...]] = field(default_factory=dict)
    kernels_ms: tuple[float, ...] = ()
    checked: Checked | None = None
    """The check after timing; None in a pair that was timed alone."""
    session: int = 0
    is_light: bool = False

    @property
    def waited_for_host(self) -> bool:
        """Return whether the GPU waited for the host in every block."""
        return all(taken.block.exposed for taken in self.blocks)

    def samples(self, sampler: Sampler | None = None) -> WorkerSamples:
        """Return the record of this worker, with a mark at each block during which ``sampler`` saw the GPU slowed."""
        return WorkerSamples(
            pair=self.pair,
            started_first=self.started_first,
            blocks=tuple(
                replace(taken.block, throttled=sampler is not None and sampler.slowed(taken.window)) for taken in self.blocks
            ),
            ready_s=self.ready_s,
            peak_memory_bytes=self.peak_memory_bytes,
            error=None if self.checked is None else self.checked.error,
            stages_ms=self.stages_ms,
            kernels_ms=self.kernels_ms,
            session=self.session,
            is_light=self.is_light,
        )


@dataclass
class Measured:
    """Everything that was measured of one case."""

    case: CaseRun
    """As it was before it was timed."""
    sides: tuple[Side, ...]
    """The sides that are timed."""
    workers: dict[Side, list[WorkerResult]] = field(default_factory=lambda: {"reference": [], "head": []})
    failures: list[Failure] = field(default_factory=list)
    lost: list[LostWorker] = field(default_factory=list)
    lost_ahead: list[LostWorker] = field(default_factory=list)
    """Workers that were lost beside others, while several pairs got ready; none of the tries that `lost` counts."""
    unfit: str | None = None
    """Why this case cannot be measured, and what to do: no verdict on the code of either side."""
    seconds: float = 0.0
    """Time spent on its pairs."""

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def remaining_sides(self) -> tuple[Side, ...]:
        """The sides still worth measuring: none once the head failed, the head alone once the reference did."""
        failed = {failure.side for failure in self.failures}
        return () if self.unfit or "head" in failed else tuple(side for side in self.sides if side not in failed)

    def windows(self) -> list[Window]:
        """Return when its blocks were measured."""
        return [taken.window for side in SIDES for one in self.workers[side] for taken in one.blocks]

    def record(self, sampler: Sampler | None) -> CaseRun:
        """Return the case with its samples so far."""
        sides = {side: tuple(one.samples(sampler) for one in self.workers[side]) for side in SIDES}
        return self.case.model_copy(
            update={
                "head": sides["head"],
                "reference": sides["reference"],
                "failures": (*self.case.failures, *self.failures),
                "pair_s": self.seconds / max(1, len(self.workers["head"])),
                "lost": (*self.case.lost, *self.lost_ahead, *self.lost),
                "unfit": self.unfit,
            }
        )
