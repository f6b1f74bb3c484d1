"""Compare and time two files of a user that run in confined processes: the referee of `ratchet evaluate`.

It holds inputs, expected results, clock and seeds; it imports nothing of the user and reads no pickle. `lab.evaluate` calls it,
`lab.judge` decides from what it returns. docs/evaluate.md says why each step is there.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ratchet.core.records.run import SIDES, Side
from ratchet.core.report.progress import Progress
from ratchet.lab import numerics
from ratchet.lab.child.selections import WIDE
from ratchet.lab.contents import KINDS, CallContents, derived, end_of, placed, settle, tensors_of
from ratchet.lab.judge import FEWEST_ROUND_TRIPS
from ratchet.lab.numerics import Closeness, Results, closeness
from ratchet.lab.records.evaluation import InputKind, Observed, Probe, Rules, Timed, TimingPlan, Violation
from ratchet.lab.runners import Done, OpenedFiles, Part, Parts, Role, Runner, RunnerTrouble

SEEDS = len(KINDS) + 1
"""Seeds of an evaluation: one for each of these inputs, and the last one for what is timed."""
CHECKED = 4
"""Results of each message that are compared."""
LOOKS = 10
"""Calls whose precision is all looked at; of later ones a share is, which nobody can foresee."""
MESSAGE_S = {"cpu": 0.02, "cuda": 0.01}
"""Seconds that K calls take at least, if there is memory for as many inputs; and twice as many round trips as have to be."""
MOST_CALLS = 1024
MEMORY_BYTES = {"cpu": 256 << 20, "cuda": 24 << 30}
"""Most memory of one side for the inputs and results of a message, and no more than a quarter of what a GPU has left. A kernel
that its memory bounds goes through a third of it in a message of K calls, which has to take several round trips."""
FEW = 8
"""Calls of the messages from which the plan takes the time of one."""
IDLE, LARGE_RESULT = 200, 4 << 20
"""How often a result is handed over to learn how long that takes; a result of this many bytes or more, once: it takes longer."""
LONG_S = 0.05
"""A call that takes longer is never given more inputs than the next two."""
PREPARE_S = {"cpu": 4.0, "cuda": 8.0}
"""Seconds for drawing inputs, and for fresh processes: both bound the plan before anything is timed."""
WARM = 2
"""Calls of a fresh process before it is timed."""
ALONE = 5
"""Messages of the baseline when the candidate is gone."""
FEWER_PAIRS, FAR_SLOWER = 3, 4.0
"""Least pairs where each call of the candidate takes so many times as long as the baseline's longest: only ``slower`` is left."""
_TIMED: tuple[InputKind, ...] = ("random", "mixed")
"""Kinds of timed inputs."""
_HINTS = {
    "has no function": "Name another function of both files with --function.",
    "positional argument": "Repeat --input for each argument, or make them with --inputs FILE:FUNCTION.",
    "hung: no answer": "It may be an endless loop; for code that is only slow raise --case-timeout.",
    "allocate memory": "Give smaller inputs with --input.",
    "out of memory": "Give smaller inputs with --input.",
}
"""Words of a failure, and what to try."""


@dataclass(frozen=True)
class CallSnapshot:
    """Results, and arguments after a call, as the referee has copied them."""

    results: Results
    arguments: Results

    @property
    def all(self) -> Results:
        return {**self.results, **self.arguments}


@dataclass
class Seen:
    """All that was seen so far, by the names that it has in `Observed`; ``opened`` and ``notes`` are for people."""

    probes: list[Probe] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    samples: list[Timed] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    peaks: dict[Side, int] = field(default_factory=dict)
    held: dict[Side, int] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    plan: TimingPlan | None = None
    checked_calls: int = 0
    trouble: str = ""


class CallSlots:
    """The memory of one side: slots with the arguments and the results of one call each."""

    def __init__(self, runner: Runner, contents: CallContents, promise: Sequence[Part], slots: int) -> None:
        """Share memory with the runner, and tell it what lies where. Raises RunnerTrouble."""
        self.runner, self.slots, self._tree = runner, slots, contents.tree
        self._arguments = placed(contents.parts)
        self.results = placed(promise, contents.bytes)
        self._stride = self.results[-1]["end"] if self.results else contents.bytes
        runner.map(self._stride * slots)
        self.announce()

    def announce(self) -> None:
        """Tell the runner what lies where. Raises RunnerTrouble."""
        layout = {"arguments": self._arguments, "results": self.results, "stride": self._stride, "slots": self.slots}
        self.runner.ask("plan", Done, tree=self._tree, **layout)

    def arguments(self, slot: int) -> list[torch.Tensor]:
        return self._tensors(self._arguments, slot)

    def snapshot(self, slot: int) -> CallSnapshot:
        """Copy results and arguments of a slot at once; what is written there later does not count."""
        results = zip(self.results, self._tensors(self.results, slot), strict=True)
        return CallSnapshot({part["place"]: one.clone() for part, one in results}, named_arguments(self.arguments(slot)))

    def rewritten(self, slot: int) -> Results:
        """Overwrite the arguments of the last call, have its result written again to the last slot, and return that."""
        for argument in self.arguments(slot):
            flat = argument.as_strided((argument.numel(),), (1,))  # however its dimensions lie in memory
            flat.logical_not_() if argument.dtype == torch.bool else flat.view(torch.uint8).bitwise_not_()
            settle(argument.device)
        return self.again(slot)

    def again(self, slot: int, *, call: bool = False) -> Results:
        """Have the result of the last call written again to the last slot, after another call if wanted, and return that."""
        self.runner.ask("again", Done, slot=self.slots - 1, of=slot, call=call)
        return self.snapshot(self.slots - 1).results

    def _tensors(self, layout: Sequence[dict[str, Any]], slot: int) -> list[torch.Tensor]:
        return tensors_of(self.runner.map(self._stride * self.slots), layout, slot * self._stride)


@dataclass(frozen=True)
class Content:
    """One content of the arguments of a call, and what the baseline promises to return for it."""

    seed: int
    kind: InputKind = "random"
    promise: tuple[Part, ...] = ()


def named_arguments(tensors: Sequence[torch.Tensor]) -> Results:
    """Return copies of arguments by the names that they have among results."""
    return {f"argument {number} after the call": one.clone() for number, one in enumerate(tensors, 1)}


class Referee:
    """One evaluation: two runners, the contents of calls, and what was seen."""

    def __init__(
        self,
        runners: Mapping[Role, Runner],
        rules: Rules,
        seeds: Sequence[int],
        pairs: int,
        progress: Progress,
    ) -> None:
        self._runners, self._rules = runners, rules
        self._contents: CallContents
        self._seeds, self._pairs, self._progress = seeds, pairs, progress
        self._device = torch.device(runners["head"].device)
        self._choose = random.SystemRandom()
        self._promise: tuple[Part, ...] = ()
        self._changes: dict[str, bool] = {}
        """Whether the baseline changes an argument."""
        self._keeps = self._keeps_each = True
        """Whether the baseline's results are memory of their own, and other memory for each call."""
        self._mixes = False
        """Whether timed inputs may have what random ones lack: the referee draws them, and the baseline works on all kinds."""
        self._widens = True
        """Whether the baseline's results in float64, where it gives any, are those of the same function."""
        self._start_s = 0.0
        self._looks = 0
        self.seen = Seen()

    def observe(self, contents: CallContents) -> None:
        """Compare, then time; what breaks a rule ends it. Raises RunnerTrouble."""
        self._contents = contents
        self._mixes = len(set(contents.kinds)) > 1
        self._probe()
        if not self._is_over:
            self._time()

    def observed(self, contained: Sequence[str]) -> Observed:
        """Return the part of it that the verdict follows from."""
        peak = self.seen.peaks.get("head", 0)
        if peak > self._rules.memory_limit_bytes:
            self.seen.violations.append(Violation(rule="memory", message=f"peak memory {peak / 2**20:.0f}MB exceeds limit"))
        return Observed.model_validate(
            {
                **{name: value for name, value in vars(self.seen).items() if name in Observed.model_fields},
                "rules": self._rules,
                "seeds": self._seeds,
                "setup_s": {side: self._runners[side].setup_s for side in SIDES},
                "contained": contained,
            }
        )

    @contextlib.contextmanager
    def _turn(self, side: Side) -> Iterator[Runner]:
        """Let the processes of one side run; those of the other are held."""
        runner = self._runners[side]
        runner.go()
        try:
            yield runner
        finally:
            with contextlib.suppress(RunnerTrouble):
                runner.stop()

    def note(self, error: RunnerTrouble) -> None:
        """Take note of a file that failed."""
        hint = next((hint for words, hint in _HINTS.items() if words in error.message), "")
        if error.role == "head":
            self.seen.violations.append(Violation(rule="failed", message=error.message, detail=hint))
        else:
            who = "The baseline" if error.role == "reference" else "The maker of inputs"
            self.seen.trouble = f"{who} failed: {error.message}{f'. {hint}' if hint else ''}"

    @property
    def _is_over(self) -> bool:
        return bool(self.seen.trouble) or any(violation.rule != "memory" for violation in self.seen.violations)

    def _fork(self, side: Side) -> None:
        """Start a fresh process for a file, and hold it. Raises RunnerTrouble."""
        began = time.monotonic()
        self._runners[side].fork(derived(self._seeds[-1], 0))
        self._runners[side].stop()
        self._start_s = max(self._start_s, time.monotonic() - began)

    # Comparing on inputs of each kind.

    def _probe(self) -> None:
        self._progress.stage("Comparing results on fresh inputs")
        for side in SIDES:
            self._fork(side)
        for number, kind in enumerate(self._contents.kinds):
            try:
                self._probe_one(Content(self._seeds[number], kind), is_first=number == 0)
            except RunnerTrouble as error:
                if error.role != "reference" or number == 0:
                    raise
                if error.message.startswith(("hung", "crashed")):
                    self._fork("reference")
                self._mixes = False
                self.seen.notes.append(f"The baseline does not work on {kind} inputs, which were not compared: {error.message}")
            if self._is_over:
                return

    def _probe_one(self, content: Content, *, is_first: bool) -> None:
        with self._turn("reference") as runner:
            content = replace(content, promise=self._described(runner, content))
        taken: dict[Side, CallSnapshot] = {}
        for side in ("reference", "head"):
            with self._turn(side) as runner:
                table = self._given(runner, content, content.promise, 2)
                runner.ask("batch", Done, count=1, seed=call_seed(content.seed))
                taken[side] = table.snapshot(0)
                self._take_peak(side)
                if is_first:
                    self._hold_to_keeping(side, table, 0, taken[side], is_first=True)
                    self._note_reuse(side, table, taken[side])
        if is_first:
            self._promise = content.promise
            before = named_arguments(self._contents.made(content.seed))
            after = taken["reference"].arguments
            self._changes = {place: not _same(value, after[place]) for place, value in before.items()}
        self._compare(content, taken["head"], taken["reference"], precise=is_first)

    def _given(self, runner: Runner, content: Content, promise: Sequence[Part] = (), slots: int = 1) -> CallSlots:
        """Share memory with a runner, and write the arguments into the first slot. Raises RunnerTrouble."""
        table = CallSlots(runner, self._contents, promise, slots)
        self._contents.fill(table.arguments(0), content.seed, content.kind)
        return table

    def _described(self, runner: Runner, content: Content, **how: bool) -> tuple[Part, ...]:
        """Have the baseline called, and return what it says of its result."""
        self._given(runner, content)
        return runner.ask("call", Parts, seed=call_seed(content.seed), **how).parts

    def _called(self, runner: Runner, content: Content, **how: bool) -> Results:
        """Have the baseline called in another way, and return its result."""
        table = CallSlots(runner, self._contents, self._described(runner, content, **how), 1)
        runner.ask("write", Done, results=table.results)
        return table.snapshot(0).results

    def _take_peak(self, side: Side) -> None:
        peak = self._runners[side].peak_bytes() + self._contents.bytes
        self.seen.peaks[side] = max(self.seen.peaks.get(side, 0), peak)
        self.seen.held[side] = self._runners[side].current_bytes() + self._contents.bytes

    def _hold_to_keeping(self, side: Side, table: CallSlots, slot: int, taken: CallSnapshot, *, is_first: bool = False) -> None:
        """Overwrite the arguments: where the baseline's first results stay as they were, all of the candidate's must too."""
        if self._keeps and closeness(table.rewritten(slot), taken.results, 0.0, 0.0).wrong:
            if side == "head":
                said = "its result changes when its argument does afterwards, the baseline's does not"
                self.seen.violations.append(Violation(rule="inputs", message=said))
            elif is_first:
                self._keeps = False

    def _note_reuse(self, side: Side, table: CallSlots, taken: CallSnapshot) -> None:
        """Call again with other arguments: who keeps a result should know where only the candidate's is lost then."""
        self._contents.fill(table.arguments(0), derived(self._seeds[-1], 1))
        try:
            keeps = not closeness(table.again(0, call=True), taken.results, 0.0, 0.0).wrong
        except RunnerTrouble as error:  # torch refuses to read what a graph has written to again
            if error.message.startswith(("hung", "crashed")):
                raise
            keeps = False
        if side == "reference":
            self._keeps_each = keeps
        elif self._keeps_each and not keeps:
            said = "A result of the candidate is lost with its next call, the baseline's is not: copy what you keep."
            self.seen.notes.append(said)

    def _exact(self, content: Content, expected: CallSnapshot) -> Results | None:
        """Return the baseline's result in float64; None where it does not compute in that, or draws other numbers then."""
        if not self._widens:
            return None
        try:
            with self._turn("reference") as runner:
                exact = self._called(runner, content, wide=True)
        except RunnerTrouble as error:  # written for one type
            if error.message.startswith(("hung", "crashed")):
                self._widens = False
                self._fork("reference")
            return None
        types = [(getattr(torch, part.dtype), part) for part in content.promise]
        wide = [(part.place, WIDE.get(dtype, dtype), part.shape) for dtype, part in types]
        if wide != [(place, one.dtype, tuple(one.shape)) for place, one in exact.items()]:
            return None
        self._widens = content.kind != "random" or numerics.is_same_function(expected.results, exact)
        return exact if self._widens else None

    def _compare(self, content: Content, found: CallSnapshot, expected: CallSnapshot, *, precise: bool) -> None:
        """Compare one call, and note what that says."""
        if content.kind == "structured" and self._contents.have_masks:  # what a mask leaves nothing of may be anything
            kept = {place: torch.where(one.isnan(), one, found.results[place]) for place, one in expected.results.items()}
            found = replace(found, results=kept)
        violation, figures = self._held(content, found, expected, precise=precise)
        problem = violation.message if violation else ""
        self.seen.probes.append(Probe(kind=content.kind, seed=content.seed, problem=problem, **figures))
        if violation:
            self.seen.violations.append(violation)

    def _held(
        self, content: Content, found: CallSnapshot, expected: CallSnapshot, *, precise: bool
    ) -> tuple[Violation | None, dict[str, float | None]]:
        """Hold one call against the baseline's; return the figures of its `Probe`, too."""
        if problem := self._changed_arguments(found, expected):
            return Violation(rule="inputs", message=problem), {}
        exact, scaled = None, content.kind != "random"
        if precise or numerics.differ_in_numbers(found.all, expected.all):  # else none is nearer to float64
            exact = self._exact(content, expected)
        near = self._closeness(found, expected, exact, scaled=scaled)
        if near.wrong:
            found = self._excused(content, found, expected)
            near = self._closeness(found, expected, exact, scaled=scaled)
        if near.wrong and exact is None:
            near = self._closeness(found, expected, self._exact(content, expected), scaled=scaled)
        figures: dict[str, float | None] = {"largest": near.largest}
        if near.wrong:
            off = "nan" if near.not_finite else f"{near.largest:.2e}"
            detail = f"{near.wrong}, on {content.kind} inputs of seed {content.seed}"
            return Violation(rule="outputs", message=f"outputs differ by {off}", detail=detail), figures
        if not precise:
            return None, figures
        error, own = numerics.precision_errors(found.results, expected.results, exact, list(expected.arguments.values()))
        return self._imprecise(error, own), {**figures, "error": error, "baseline_error": own}

    def _imprecise(self, error: float, own: float | None) -> Violation | None:
        if not self._rules.same_precision or not numerics.is_less_precise(error, own):
            return None
        of_baseline = "taken from the baseline, which does not run in it" if own is None else f"the baseline's {own:.3g}"
        return Violation(
            rule="precision",
            message=f"precision is {error / max(own or 1.0, 1.0):.0f} times worse than the baseline's",
            detail=f"error against float64 in units of the type's epsilon: {error:.3g}, {of_baseline}",
        )

    def _closeness(
        self, found: CallSnapshot, expected: CallSnapshot, exact: Results | None = None, *, scaled: bool = False
    ) -> Closeness:
        return closeness(found.all, expected.all, self._rules.rtol, self._rules.atol, scaled=scaled, exact=exact)

    def _excused(self, content: Content, found: CallSnapshot, expected: CallSnapshot) -> CallSnapshot:
        """Return a call in which elements that the baseline might give as well are the baseline's.

        These are indices of equal values, and what it gives for arguments that differ by a few roundings: there a value lies
        between two steps, or two are nearly equal.
        """
        taken = dict(found.all)
        with self._turn("reference") as runner:
            selected = self._called(runner, content, watch=True)
            for place, value in expected.all.items():
                if value.dtype in (torch.int64, torch.int32):
                    for chosen, source in self._sources(selected, place, value, expected):
                        is_tie = numerics.ties(taken[place], value, chosen, source)
                        taken[place] = torch.where(is_tie, value, taken[place])
            for number in range(numerics.NUDGES):
                if not closeness(taken, expected.all, self._rules.rtol, self._rules.atol).wrong:
                    break
                table = self._given(runner, content, content.promise)
                numerics.nudge(table.arguments(0), number)
                runner.ask("batch", Done, count=1, seed=call_seed(content.seed))
                for place, value in table.snapshot(0).all.items():
                    near = numerics.apart(taken[place], value, self._rules.rtol, self._rules.atol)[1]
                    taken[place] = torch.where(near, expected.all[place], taken[place])
        return CallSnapshot({place: taken[place] for place in found.results}, {place: taken[place] for place in found.arguments})

    def _sources(
        self, selected: Results, place: str, value: torch.Tensor, expected: CallSnapshot
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield indices and the tensors that they may select from: what was seen or, where nothing was, arguments and results."""
        chosen, source = selected.get(f"chosen {place}"), selected.get(f"source {place}")
        if chosen is not None and source is not None and chosen.numel() == value.numel():
            yield chosen, source
        else:
            yield from ((value, one) for one in expected.all.values() if one is not value and numerics.tells(value, one))

    def _changed_arguments(self, found: CallSnapshot, expected: CallSnapshot) -> str:
        for place, value in expected.arguments.items():
            if not self._changes.get(place, True) and not _same(found.arguments[place], value):
                return f"it changes {place.removesuffix(' after the call')}, the baseline does not"
        return ""

    # Timing, by a plan that is fixed before.

    def _time(self) -> None:
        plan = self.seen.plan = self._planned()
        self._progress.start(1, plan.pairs)
        slots, process = 2 * (plan.calls + plan.calls // 2), -1
        for pair in range(plan.pairs):
            self._progress.case("evaluate", pair, pair)
            if process < (process := pair * plan.processes // plan.pairs):
                for side in SIDES if process else ():
                    self._fork(side)
                tables = self._tables(slots)
                self._message(tables, min(WARM, slots))
            calls = plan.calls + self._choose.randrange(plan.calls // 2 + 1)
            took_s = {count: self._message(tables, count) for count in self._choose.sample([calls, 2 * calls], 2)}
            both = {side: (took_s[calls][side], took_s[2 * calls][side]) for side in SIDES}
            self.seen.samples.append(Timed(process=process, calls=calls, baseline_s=both["reference"], candidate_s=both["head"]))
            if self._is_over:
                return
        for side in SIDES:
            with self._turn(side) as runner:
                self.seen.opened |= set(runner.ask("opened", OpenedFiles).paths)
                self._take_peak(side)
        self._runners["head"].end()
        self._progress.stage("Timing the baseline alone")
        del tables["head"]
        self.seen.alone_s = [self._message(tables, 2 * plan.calls)["reference"] / (2 * plan.calls) for _ in range(ALONE)]

    def _planned(self) -> TimingPlan:
        """Return how often to call, by the times of a few calls, and by what inputs and processes cost."""
        self._progress.stage("Planning")
        began = time.monotonic()
        for kind in _TIMED:
            self._contents.made(derived(self._seeds[-1], 1), kind)
        draw_s = max(time.monotonic() - began, 1e-6) / len(_TIMED)
        device = self._device.type
        bytes_ = self._contents.bytes + end_of(self._promise)
        free = torch.cuda.mem_get_info()[0] / 4 if device == "cuda" else MEMORY_BYTES[device]
        most = min(free, MEMORY_BYTES[device]) / max(bytes_, 1) - 1
        baseline, tables = self._runners["reference"], self._tables(FEW if most >= FEW else 1)
        first = [self._message(tables, 1) for _ in range(3)]
        own_s = min(one["head"] for one in first)
        once_s = max(own_s, min(one["reference"] for one in first))
        round_trip_s = statistics.median(baseline.timed(0, 0) for _ in range(9))
        times = IDLE if end_of(self._promise) < LARGE_RESULT else 1
        idle_s = statistics.median(baseline.timed(times, 0, idle=True) for _ in range(5))
        call_s = once_s - round_trip_s
        if most >= FEW and once_s < LONG_S:
            few = [self._message(tables, FEW) for _ in range(3)]
            call_s = (max(min(one[side] for one in few) for side in SIDES) - once_s) / (FEW - 1)
        pairs = self._pairs
        if own_s > FAR_SLOWER * max(one["reference"] for one in first):
            pairs = min(pairs, max(FEWER_PAIRS, int(PREPARE_S[device] / own_s)))
        bounds = (
            max(MESSAGE_S[device], 2 * FEWEST_ROUND_TRIPS * round_trip_s) / max(call_s, 1e-7),
            most / 3,
            PREPARE_S[device] / (4.5 * pairs * draw_s),
            MOST_CALLS if once_s < LONG_S else 1,
        )
        processes = min(pairs, PREPARE_S[device] / max(2 * (self._start_s + WARM * once_s), 1e-3))
        return TimingPlan(
            pairs=pairs,
            processes=max(1, int(processes)),
            calls=max(1, int(min(bounds))),
            checked=CHECKED,
            round_trip_s=round_trip_s,
            transport_s=max(0.0, idle_s - round_trip_s) / times,
        )

    def _tables(self, slots: int) -> dict[Side, CallSlots]:
        """Share memory for so many calls, and one result more, with each side."""
        tables: dict[Side, CallSlots] = {}
        for side in SIDES:
            with self._turn(side) as runner:
                tables[side] = CallSlots(runner, self._contents, self._promise, slots + 1)
        return tables

    def _message(self, tables: Mapping[Side, CallSlots], count: int) -> dict[Side, float]:
        """Send one message with so many fresh inputs to each side, and return how long each took until its results were there."""
        first = self._choose.randrange(2**62)
        contents = [self._timed_content(first + slot) for slot in range(count)]
        for slot, content in enumerate(contents):
            drawn, *others = (table.arguments(slot) for table in tables.values())
            self._contents.fill(drawn, content.seed, content.kind)
            for other in others:
                for one, to in zip(drawn, other, strict=True):
                    to.copy_(one)
        settle(self._device)
        took_s: dict[Side, float] = {}
        taken: dict[Side, dict[int, CallSnapshot]] = {}
        chosen = self._choose.sample(range(count), min(count, CHECKED))  # no process of the files can see what is drawn here
        failed: RunnerTrouble | None = None
        for side in self._choose.sample([*tables], len(tables)):
            table = tables[side]
            try:
                took_s[side] = table.runner.timed(count, call_seed(first))
            except RunnerTrouble as error:
                if side == "reference":
                    raise
                failed = error  # accused of nothing that the baseline does on these inputs, too
                continue
            taken[side] = {slot: table.snapshot(slot) for slot in (*chosen, count - 1)}
            with self._turn(side):
                self._hold_to_keeping(side, table, count - 1, taken[side][count - 1])
        if failed is not None:
            raise failed
        if len(tables) > 1:
            for slot in chosen:
                self._check(taken["head"][slot], taken["reference"][slot], contents[slot], tables)
        return took_s

    def _timed_content(self, number: int) -> Content:
        """Return the content of a timed call: half are mixed, or a file could count on what never comes when it is timed."""
        seed = derived(self._seeds[-1], number)
        return Content(seed, _TIMED[seed % 2 if self._mixes else 0], self._promise)

    def _check(self, found: CallSnapshot, expected: CallSnapshot, content: Content, tables: Mapping[Side, CallSlots]) -> None:
        """Hold one call of a message against the baseline's on the same content; what looks wrong, against float64, too."""
        self.seen.checked_calls += 1
        if self.seen.violations:
            return
        is_random = content.kind == "random"
        is_looked_at = bool(self._changed_arguments(found, expected) or self._closeness(found, expected).wrong)
        if not is_looked_at and is_random and numerics.is_far(found.results, expected.results):
            is_looked_at = self._choose.random() < LOOKS / (LOOKS + self._looks)
            self._looks += 1
        if is_looked_at:
            self._compare(content, found, expected, precise=is_random)
            with self._turn("reference"):
                tables["reference"].announce()


@contextlib.contextmanager
def on_other_cores(cores: Sequence[int]) -> Iterator[None]:
    """Keep this process off the cores on which the files run, if there are others."""
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    if others := before - set(cores):
        os.sched_setaffinity(0, others)
        torch.set_num_threads(len(others))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


def call_seed(seed: int) -> int:
    """Return the seed that both files get before their calls, as most generators of random numbers take it."""
    return seed % 2**31


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))
