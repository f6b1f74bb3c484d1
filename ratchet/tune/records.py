"""Tuning: the record of a search and its file, the parameters that were applied, and the tasks of its stations.

``ratchet tune`` writes the record after every evaluation (`TuningFile`); executors and stations exchange tasks; the loader of a
tree reads applied parameters (`Tuned`). `TuningFile` and `keep_earlier` write files; the rest is pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Literal, TypeVar

from pydantic import AwareDatetime, Field, model_validator

from ratchet.core.errors import OutputError
from ratchet.core.records import Count, NotNegative, Positive, Record
from ratchet.core.records.environment import Environment, Fingerprint
from ratchet.core.records.files import dumps, save_text
from ratchet.core.records.run import SampleMs, Tree, WorkloadIdentity
from ratchet.core.records.tuned import EARLIER
from ratchet.core.records.verdict import Comparison
from ratchet.core.workload import Parameter

# The record, ``tuning/CASE.FINGERPRINT.json``: every configuration that was tried, how it ended, and how the best were confirmed.

Configuration = dict[str, Parameter]
"""Parameter → its value, one for each parameter of the space."""
Ending = Literal["correct", "dropped", "wrong", "compile", "resources", "timeout", "crash"]
"""``dropped``: correct, but after a few samples already too far behind. The last five were never timed."""
TIMED: tuple[Ending, ...] = ("correct", "dropped")


class Evaluation(Record):
    """One configuration, tried once."""

    configuration: Configuration
    outcome: Ending
    reason: str = ""
    """Reason why it was dropped or failed: one line, perhaps in the words of a compiler."""
    samples_ms: tuple[SampleMs, ...] = ()
    median_ms: Positive | None = None
    normalised: Positive | None = None
    """Its time over the default's, on the same GPU at about the same time; None where the default itself gives no time."""
    compile_s: NotNegative = 0.0
    wall_s: NotNegative = 0.0
    gpu: str | None = None
    """Name and index of the GPU: ``NVIDIA H200 [0]``."""
    worker: str | None = None
    at: AwareDatetime
    """When it ended."""

    @property
    def timed(self) -> bool:
        return self.outcome in TIMED

    @model_validator(mode="after")
    def _is_timed_or_explained(self) -> Evaluation:
        if self.timed != bool(self.samples_ms) or self.timed != (self.median_ms is not None):
            raise ValueError(f"an evaluation has samples and a median if it was timed, and only then: this one is {self.outcome}")
        if not self.timed and (self.normalised is not None or not self.reason):
            raise ValueError(f"an evaluation that was not timed has a reason and no time: this one is {self.outcome}")
        return self


class Confirmation(Record):
    """A configuration (the head) against the default (the reference) in interleaved pairs of processes."""

    configuration: Configuration
    config: str
    """The benchmark's config on which they were compared."""
    comparison: Comparison | None = None
    """None where the configuration gives no time there."""
    reason: str = ""
    """Why it gives none."""

    @model_validator(mode="after")
    def _is_either(self) -> Confirmation:
        if (self.comparison is None) != bool(self.reason):
            raise ValueError("a confirmation has a comparison, or a reason why it has none")
        return self


class Session(Record):
    """One call of ``ratchet tune``; a resumed search has several."""

    started_at: AwareDatetime
    wall_s: NotNegative = 0.0
    startup_s: NotNegative = 0.0
    """Seconds of ``wall_s`` before the first configuration could be tried. The budget counts from there."""
    command: tuple[str, ...]
    strategy: str
    """As it was carried out: never ``auto``'s mere wish, where the space decided."""
    seed: int
    budget_s: NotNegative | None = None
    max_evaluations: Count | None = None
    executor: str = "local"
    gpus: tuple[str, ...] = ()
    """Name and index of each, as in an evaluation."""
    first: Count = 0
    """How many evaluations were there before it."""
    ended: str = ""
    """Why no more was tried; empty while it runs, and for good where it was killed."""


class TuningRecord(Record):
    """All that is known of one case's space on one kind of machine."""

    schema_version: Literal[1] = 1
    case: str
    benchmark: str
    config: str
    workload: WorkloadIdentity
    environment: Environment
    head: Tree
    sources: dict[str, str] = {}
    """Path within the tree → SHA-256 of files of the code that was timed. Only records of earlier releases have it."""
    space: dict[str, Annotated[tuple[Parameter, ...], Field(min_length=1)]]
    constraints: tuple[str, ...] = ()
    """Their source text."""
    valid: Count | None = None
    """How many configurations the constraints leave; None where there are too many to count."""
    default: Configuration
    """The values used today."""
    sessions: Annotated[tuple[Session, ...], Field(min_length=1)]
    evaluations: tuple[Evaluation, ...] = ()
    """In the order in which they ended."""
    confirmations: tuple[Confirmation, ...] = ()
    """The best few on this config; best first."""
    others: tuple[Confirmation, ...] = ()
    """The winner on the benchmark's other configs."""
    best: Configuration | None = None
    """What is recommended in place of the default; None: no change."""
    verdict: str = ""
    """One sentence; empty while nothing is decided."""

    @model_validator(mode="after")
    def _lies_in_its_space(self) -> TuningRecord:
        tried: tuple[Evaluation | Confirmation, ...] = (*self.evaluations, *self.confirmations, *self.others)
        for configuration in (self.default, *([self.best] if self.best else []), *(entry.configuration for entry in tried)):
            self.check_configuration(configuration)
        if elsewhere := [confirmation.config for confirmation in self.confirmations if confirmation.config != self.config]:
            raise ValueError(f"a confirmation is of {elsewhere[0]}, the record of {self.config}")
        if self.best is not None and self.confirmed(self.best) is None:
            raise ValueError("best is a configuration that was never confirmed")
        return self

    def check_configuration(self, configuration: Mapping[str, Parameter]) -> None:
        """Raise ValueError where a configuration has other parameters than the space, or another value."""
        if set(configuration) != set(self.space):
            raise ValueError(f"a configuration names {sorted(configuration)}, the space {sorted(self.space)}")
        for name, value in configuration.items():
            if value not in self.space[name]:
                raise ValueError(f"a configuration has {name}={value}, which is not in the space")

    @property
    def started_at(self) -> AwareDatetime:
        return self.sessions[0].started_at

    @property
    def wall_s(self) -> float:
        """Seconds of all sessions together."""
        return sum(session.wall_s for session in self.sessions)

    @property
    def startup_s(self) -> float:
        """Seconds of them before something could be tried."""
        return sum(session.startup_s for session in self.sessions)

    def confirmed(self, configuration: Mapping[str, Parameter]) -> Comparison | None:
        """Return how a configuration compares with the default on this case; None where that was not confirmed."""
        comparisons = [
            confirmation.comparison for confirmation in self.confirmations if confirmation.configuration == configuration
        ]
        return comparisons[-1] if comparisons else None

    def differences(self, other: TuningRecord) -> list[str]:
        """Return one line for each difference that keeps evaluations of the two records apart: ``space: BLOCK …``."""
        lines = [f"workload {line}" for line in self.workload.differences(other.workload)]
        lines += self.environment.fingerprint.differences(other.environment.fingerprint)
        lines += [f"case: {self.case} → {other.case}"] if self.case != other.case else []
        if not (self.head.content and self.head.content == other.head.content):
            lines.append(f"code: {_named(self.head)} → {_named(other.head)}")
        for name in sorted({*self.space, *other.space}):
            mine, theirs = self.space.get(name), other.space.get(name)
            if mine != theirs:
                lines.append(f"space: {name} {_listed(mine)} → {_listed(theirs)}")
        if self.default != other.default:
            lines.append(f"default: {self.default} → {other.default}")
        if self.constraints != other.constraints:
            lines.append("the constraints differ")
        return lines


def _named(tree: Tree) -> str:
    changed = " with changes" if tree.dirty else ""
    return f"{tree.commit[:10]}{changed}" if tree.content else "unknown"


def _listed(values: tuple[Parameter, ...] | None) -> str:
    return "is absent" if values is None else f"{list(values)}"


# The file of the record while it grows: whole after every evaluation, so that a kill loses at most the one under way.

_EMPTY = '\n  "evaluations": [],\n'
"""A string in JSON holds no line break, so these lines are in the file once."""

AnyPath = TypeVar("AnyPath", bound=PurePath)


def tuning_path(folder: AnyPath, case: str, fingerprint: Fingerprint) -> AnyPath:
    """Return the path of a record: ``tuning/attention.training_512.h200.0123456789.json``."""
    return folder / f"{case.replace('/', '.')}.{fingerprint.key}.json"


class TuningFile:
    """A writer of one growing record, in the form of `ratchet.core.records.files.save`; each evaluation becomes text only once.

    After some thousand evaluations on several GPUs, `save` alone would keep the GPUs waiting. With its first evaluation, a new
    record replaces an earlier one, which is kept (`keep_earlier`); a resumed record continues in its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._texts: list[str] = []
        self._ours = False

    def save(self, record: TuningRecord) -> None:
        """Write the record. Raises OutputError where the folder or the disk refuses."""
        is_new = not self._ours and len(record.sessions) == 1 and self.path.is_file()
        if is_new and not record.evaluations:
            return  # nothing was tried yet that would be worth more than what is there
        if is_new:
            keep_earlier(self.path)
        save_text(self.path, self.text(record))
        self._ours = True

    def text(self, record: TuningRecord) -> str:
        """Return the same text as `ratchet.core.records.files.dumps`; evaluations that were there at the last call are reused."""
        frame = dumps(record.model_copy(update={"evaluations": ()}))
        if not record.evaluations:
            return frame
        for evaluation in record.evaluations[len(self._texts) :]:
            self._texts.append("\n".join(f"    {line}" for line in dumps(evaluation).splitlines()))
        before, after = frame.split(_EMPTY)
        evaluations = ",\n".join(self._texts)
        return f'{before}\n  "evaluations": [\n{evaluations}\n  ],\n{after}'


def keep_earlier(path: Path) -> Path:
    """Move a record out of the way: to ``earlier/CASE.MACHINE.1.json``, with the first number that is free.

    Raises OutputError where the folder or the disk refuses.
    """
    target = next(place for place in _places(path) if not place.exists())
    try:
        target.parent.mkdir(exist_ok=True)
        return path.rename(target)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be moved to {target}: {error.strerror or error}.", "Move it away, or continue it with --resume."
        ) from error


def kept_earlier(path: Path) -> Path | None:
    """Return the path of the last record that `keep_earlier` moved away from this place; None where there is none."""
    return next(reversed(list(itertools.takewhile(Path.exists, _places(path)))), None)


def _places(path: Path) -> Iterator[Path]:
    return (path.parent / EARLIER / f"{path.stem}.{number}{path.suffix}" for number in itertools.count(1))


# Tasks and results that cross processes, and perhaps machines, while a search runs.


class Task(Record):
    """One piece of work for one station."""

    number: Count
    """Number of this task; no two tasks of a run have the same."""
    what: Literal["evaluate", "confirm"]
    """``evaluate``: time one configuration once. ``confirm``: time some against the default, in pairs of fresh processes."""
    case: str
    configurations: tuple[Configuration, ...]
    """One to evaluate, or those to confirm."""
    best: Positive | None = None
    """The best normalised time so far: a configuration clearly behind it after a few samples is dropped."""
    seconds: NotNegative | None = None
    """Seconds after which a confirmation ends, with the pairs that it has by then."""


class TaskResult(Record):
    """The result of a task."""

    task: Task
    place: str
    """The station that did it: ``NVIDIA H200 [0]``."""
    evaluation: Evaluation | None = None
    confirmations: tuple[Confirmation, ...] = ()
    lost: str = ""
    """The reason why there is neither: the station is gone."""
