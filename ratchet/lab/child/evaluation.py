"""Run a file under evaluation in a worker: make its arguments, call it as the clocks do, and hand its results out to be compared.

The generated benchmark of each side calls `evaluated`, in the host, before anything of the user's is imported. A worker imports
the file when it builds the case. `probe` runs the candidate and writes its results to a file; `compare` runs the baseline in
a process of its own and compares: so the expected values are never in a process that has loaded the candidate.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import math
import os
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.utils.dlpack

from ratchet.core import units
from ratchet.core.bench.child import correctness, outputs
from ratchet.core.bench.child.calls import seed_all
from ratchet.core.bench.child.correctness import BrokenRule
from ratchet.core.bench.child.outputs import Part, Value
from ratchet.core.bench.clocks import persisting_l2_bytes
from ratchet.core.bench.messages import Evidence
from ratchet.core.records.files import load
from ratchet.core.workload import Benchmark, Workload, benchmark
from ratchet.lab.child.guard import Guard
from ratchet.lab.records.evaluation import TASK_FILE, EvaluationTask, InputKind, InputSpec, SourceFile

if TYPE_CHECKING:
    from ratchet.core.bench.child.worker import Worker

SPARE, STEP = 1 << 16, 16
"""Elements of random content beyond what an argument needs, and the step between the places at which a call's content begins."""
CONTENTS = 3
"""Arguments of a user's own maker that calls take in random turn."""
LATE_S = 1e-3
"""A device that is still busy this long after the stream of the call had nothing left to do has work on another stream."""
_SLEEP_CYCLES = 20_000_000
"""About 10 ms, in which the stream of the call has not begun yet: what another stream does meanwhile, it does with old inputs."""
_BANDS = 7

# Bound before the user's code is imported, as in `child.worker`.
_copy, _clone, _isclose = torch.Tensor.copy_, torch.Tensor.clone, torch.isclose
_synchronize, _stream = torch.cuda.synchronize, torch.cuda.current_stream
_sleep: Callable[[int], None] = torch.cuda._sleep
_on_stream: Callable[[torch.cuda.Stream], contextlib.AbstractContextManager[object]] = torch.cuda.stream
_is_initialized: Callable[[], bool] = torch.cuda.is_initialized
_peak, _reset_peak = torch.cuda.max_memory_allocated, torch.cuda.reset_peak_memory_stats
_tofile = np.ndarray.tofile
_synchronize_stream: Callable[[torch.cuda.Stream], None] = torch.cuda.Stream.synchronize


def evaluated(folder: Path) -> Benchmark:
    """Return the benchmark of one side, whose task lies in ``folder``."""
    task = load(folder / TASK_FILE, EvaluationTask)
    for source in filter(None, (task.source, task.maker)):
        # What a traceback or Triton reads of this file is the text that runs. Without a time it is never read again.
        linecache.cache[source.path] = (len(source.text), None, source.text.splitlines(keepends=True), source.path)
    if "triton" in task.source.text:
        with contextlib.suppress(ImportError):  # once here instead of once a worker
            importlib.import_module("triton")
    loader = _Loader(task)

    @benchmark(name="evaluate")
    def evaluate(device: torch.device) -> Workload:
        arguments = _Refreshed(loader, device, torch.initial_seed())
        timed = _Timed(loader, arguments)
        return EvaluatedWorkload(
            run=timed, setup=arguments.refresh, tolerance=dict.fromkeys(correctness.TOLERANCE, task.tolerance), timed=timed
        )

    _LOADERS.append(loader)
    return evaluate


_LOADERS: list[_Loader] = []
"""The one of this host."""


@dataclass
class _Loader:
    """The file of this side: imported once a worker, when a case is built."""

    task: EvaluationTask
    guard: Guard | None = None
    """What the harness was before the first file of the user was imported."""
    pinned_before: int = 0
    """Bytes of L2 that were set aside for pinned lines before the file was imported."""
    last_result: Any = None
    """The result of the last call that was timed: an older one may lie in memory that the candidate has used again since."""
    _modules: dict[str, types.ModuleType] = field(default_factory=dict)

    def function(self) -> Callable[..., Any]:
        """Import the file, and return its function. Raises AttributeError where it has none, and what the file raises."""
        return self._named(self.task.source, self.task.function)

    def arguments(self, device: torch.device, seed: int, kind: InputKind = "random") -> list[Any]:
        """Make the arguments of one call."""
        seed_all(seed)
        if self.task.maker is None:
            return [_tensor(spec, device, kind) for spec in self.task.inputs]
        made = self._named(self.task.maker, self.task.maker_function)(seed, str(device))
        return list(made) if isinstance(made, tuple | list) else [made]

    def check(self) -> None:
        """Raise BrokenRule where the candidate has replaced something of the harness, or keeps lines in L2 through each flush."""
        if self.task.strict and self.guard and (what := self.guard.replaced()):
            raise BrokenRule(f"patched: {what}")
        if self.task.strict and (pinned := _pinned_bytes()) > self.pinned_before:
            raise BrokenRule(f"harness: it sets {units.size(pinned)} of L2 aside, and no flush evicts what it pins there")

    def _named(self, source: SourceFile, name: str) -> Callable[..., Any]:
        module = self._modules.get(source.path) or self._imported(source)
        found = getattr(module, name, None)
        if not callable(found):
            has = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_")) or "none"
            raise AttributeError(f"{Path(source.path).name} has no function {name} (it has: {has[:200]})")
        return found  # type: ignore[no-any-return]

    def _imported(self, source: SourceFile) -> types.ModuleType:
        os.chdir(self.task.folder)
        sys.path.append(str(Path(source.path).parent))
        module = types.ModuleType(Path(source.path).stem)
        module.__file__ = source.path
        sys.modules.setdefault(module.__name__, module)  # for pickles and dataclasses, which look their module up
        self._modules[source.path] = module
        self.pinned_before = _pinned_bytes()
        self.guard = self.guard or Guard()  # not sooner: until the host has read its benchmarks, `gpu_facts` stands in for torch
        try:
            exec(compile(source.text, source.path, "exec"), vars(module))  # noqa: S102  the file that was asked for
        except BaseException:
            del self._modules[source.path]
            raise
        self.check()
        return module


class _Refreshed:
    """Arguments that have new contents before each call, at the same addresses and without a trace in version counters."""

    def __init__(self, loader: _Loader, device: torch.device, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311  an order of contents, not a secret
        seed_all(seed)
        self.live = loader.arguments(device, seed)
        if loader.task.maker is None:
            seed_all(seed + 1)
            self._wide = [_tensor(spec, device, "random", SPARE) for spec in loader.task.inputs]
            self._contents: list[list[Any]] = []
        else:
            self._wide, self._contents = [], [loader.arguments(device, seed + number) for number in range(1, CONTENTS)]
            self._contents.append([_clone(one) if isinstance(one, torch.Tensor) else one for one in self.live])

    def refresh(self) -> None:
        """Copy the next contents into the arguments."""
        if self._contents:
            replace(self.live, self._draw.choice(self._contents))
            return
        start = self._draw.randrange(0, SPARE, STEP)
        for live, wide in zip(self.live, self._wide, strict=True):
            if isinstance(live, torch.Tensor):
                _copy(live.data, wide[start : start + live.numel()].view(live.shape))


def replace(live: Sequence[Any], contents: Sequence[Any]) -> None:
    """Copy contents into arguments: ``data`` has a version counter of its own, so that of the argument stays."""
    for one, content in zip(live, contents, strict=True):
        if isinstance(one, torch.Tensor):
            _copy(one.data, content)


class _Timed:
    """The call that clocks time. Its last result is kept, so that a call that was timed can be checked."""

    def __init__(self, loader: _Loader, arguments: _Refreshed) -> None:
        self.loader = loader
        self._function = loader.function()
        self._arguments = arguments.live

    def __call__(self) -> Any:
        self.loader.last_result = result = taken(self._function(*self._arguments), self._arguments)
        return result

    def evidence(self, workload: Workload) -> list[Evidence]:
        """Return the evidence of the last call that was timed. Raises BrokenRule and WrongResult."""
        self.loader.check()
        return [
            part.model_copy(update={"place": f"timed call: {part.place}"})
            for part in correctness.evidence(workload, _parts(self.loader.last_result, strict=self.loader.task.strict))
        ]


@dataclass(frozen=True)
class EvaluatedWorkload(Workload):
    """A workload that can show the result of the last call that was timed."""

    timed: _Timed | None = None


def taken(result: Any, arguments: Sequence[Any]) -> Any:
    """Return a result as torch knows it: other libraries' arrays through DLPack, the arguments where the function gives none."""
    if result is None:
        return [one for one in arguments if isinstance(one, torch.Tensor)]
    return _as_torch(result)


def _as_torch(node: Any) -> Any:
    if hasattr(node, "__dlpack__"):
        return node if isinstance(node, torch.Tensor | np.ndarray) else torch.utils.dlpack.from_dlpack(node)
    if isinstance(node, Mapping):
        return {key: _as_torch(value) for key, value in node.items()}
    if isinstance(node, tuple | list) and len(node) <= outputs.JOINED:
        return [_as_torch(value) for value in node]
    return node


def _parts(result: Any, *, strict: bool) -> dict[str, Part]:
    """Return the parts of a result; where that is strict, all of them plain tensors whose work is done or queued."""
    found = dict(outputs.leaves(result, "output"))
    for place, leaf in found.items():
        if strict and isinstance(leaf, torch.Tensor) and type(leaf) not in (torch.Tensor, torch.nn.Parameter):
            raise BrokenRule(f"deferred: {place} is a {type(leaf).__name__}, which may put its work off: return a torch.Tensor")
    return {place: outputs.part(leaf, place) for place, leaf in found.items()}


def _tensor(spec: InputSpec, device: torch.device, kind: InputKind, spare: int = 0) -> Any:
    """Make one argument; with ``spare``, flat and with so many more elements."""
    if spec.number is not None:
        return int(spec.number) if spec.number.is_integer() else spec.number
    shape = tuple(max(1, size * 3 // 4) for size in spec.shape) if kind == "other shape" else spec.shape
    dtype = getattr(torch, spec.dtype)
    shape = (int(np.prod(shape)) + spare,) if spare else shape
    if not spec.is_float:
        return torch.randint(spec.low, spec.high, shape, device=device).to(dtype)
    made = torch.randn(shape, device=device, dtype=dtype)
    if kind == "large":
        made *= 64
    elif kind == "structured":
        _structure(made)
    return made


def _structure(made: torch.Tensor) -> None:
    """Give bands of rows what random numbers never are: zeros, ones, a ramp, a large offset, tiny and large values, outliers."""
    rows = made.view(-1) if made.dim() < 2 or len(made) < _BANDS else made
    zeros, ones, ramp, offset, tiny, large, outliers = rows.tensor_split(_BANDS)
    zeros.zero_()
    ones.fill_(1)
    ramp.copy_(torch.linspace(-2, 2, ramp.numel(), device=made.device).view(ramp.shape))
    offset.add_(16)
    tiny.mul_(1e-3)
    large.mul_(32)
    outliers.view(-1)[::97] *= 256


@dataclass(frozen=True)
class _Run:
    """One call of one side on given contents."""

    parts: Mapping[str, Part]
    """The results, and each argument that the call changed."""
    peak_bytes: int
    aliases: bool
    """Whether a result is memory of an argument."""
    problem: str = ""


def _run(loader: _Loader, device: torch.device, seed: int, kind: InputKind) -> _Run:
    """Call twice at the same addresses, with other contents first, and return what the second call gave as it returned it."""
    function = loader.function()
    contents, live = loader.arguments(device, seed, kind), loader.arguments(device, seed + 1, kind)
    seed_all(seed)
    first = taken(function(*live), live)
    _parts(first, strict=loader.task.strict)
    del first
    on_gpu = device.type == "cuda"
    stream = _stream() if on_gpu else None
    before = _start_memory(on_gpu=on_gpu)
    if on_gpu:
        _sleep(_SLEEP_CYCLES)
    replace(live, contents)
    seed_all(seed)
    result = taken(function(*live), live)
    peak = _end_memory(before, sum(one.nbytes for one in contents if isinstance(one, torch.Tensor)), on_gpu=on_gpu)
    with _on_stream(stream) if stream is not None else contextlib.nullcontext():  # what is not on this stream is not waited for
        parts = _parts(result, strict=loader.task.strict)
        kept = {place: _clone(part) if isinstance(part, torch.Tensor) else part for place, part in parts.items()}
    late_s = 0.0
    if stream is not None:
        _synchronize_stream(stream)
        began = perf_counter()
        _synchronize()
        late_s = perf_counter() - began
    problem = f"deferred: work on another stream ended {late_s * 1e3:.1f} ms after the call's" if late_s > LATE_S else ""
    changed = {
        f"argument {number + 1} after the call": _clone(one)
        for number, (one, content) in enumerate(zip(live, contents, strict=True))
        if isinstance(one, torch.Tensor) and not _same(one, content)
    }
    addresses = {one.untyped_storage().data_ptr() for one in live if isinstance(one, torch.Tensor)}
    tensors = {place: part for place, part in parts.items() if isinstance(part, torch.Tensor)}
    aliases = any(part.untyped_storage().data_ptr() in addresses for part in tensors.values())
    moved = [place for place, part in tensors.items() if not _same(part, kept[place])]
    if moved and not problem:
        problem = f"deferred: {moved[0]} still changed after the call had returned"
    loader.check()
    return _Run({**kept, **changed}, peak, aliases, problem)


def _pinned_bytes() -> int:
    return persisting_l2_bytes() if _is_initialized() else 0


def _same(one: torch.Tensor, other: Any) -> bool:
    return bool(_isclose(one, other, rtol=0, atol=0, equal_nan=True).all())


def _start_memory(*, on_gpu: bool) -> int:
    if on_gpu:
        _synchronize()
        _reset_peak()
        return 0
    with contextlib.suppress(OSError):  # where it is not allowed, the peak is that of the process so far
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM: proc(5)
    return _status_bytes("VmRSS:")


def _end_memory(before: int, inputs: int, *, on_gpu: bool) -> int:
    """Return the most bytes that a call held, arguments included; on the GPU without our own copy of these."""
    if on_gpu:
        return max(0, int(_peak()) - inputs)
    return max(0, _status_bytes("VmHWM:") - before) + inputs


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def probe(device: torch.device, seed: int, kind: InputKind, file: str) -> dict[str, Any]:
    """Run the candidate, and write the bytes of its results to a file, one part after the other."""
    run = _run(_LOADERS[0], device, seed, kind)
    if run.problem:
        raise BrokenRule(run.problem)
    layout = write_parts(run.parts, Path(file))
    return {"parts": layout, "peak_bytes": run.peak_bytes, "aliases": run.aliases}


def write_parts(parts: Mapping[str, Part], file: Path) -> list[dict[str, Any]]:
    """Write the bytes of all tensors to a file, one after the other, and return the layout of all parts."""
    layout: list[dict[str, Any]] = []
    with file.open("wb", buffering=0) as stream:
        for place, part in parts.items():
            if isinstance(part, Value):
                layout.append({"place": place, "dtype": "", "shape": [], "value": repr(part.value)[:1000]})
                continue
            plain = part.contiguous().reshape(-1).cpu()
            _tofile(plain.view(torch.uint8).numpy(), stream)
            layout.append({"place": place, "dtype": str(part.dtype).removeprefix("torch."), "shape": list(part.shape)})
    return layout


def compare(
    device: torch.device,
    seed: int,
    kind: InputKind,
    file: str,
    candidate: Mapping[str, Any],
    rtol: float,
    atol: float,
    *,
    precise: bool,
) -> dict[str, Any]:
    """Run the baseline, and compare with what the candidate wrote. ``precise`` asks for both errors against float64, too."""
    loader = _LOADERS[0]
    run = _run(loader, device, seed, kind)
    answer: dict[str, Any] = {"peak_bytes": run.peak_bytes}
    written = {part["place"]: part for part in candidate["parts"]}
    expected = run.parts
    answer["output_bytes"] = 0 if run.aliases else outputs.size(expected)
    for place, part in expected.items():
        if isinstance(part, torch.Tensor) and kind != "random" and not _finite(part):
            return {**answer, "skipped": f"the baseline's own {place} holds NaN or infinity"}
    problem = _structural(written, expected)
    if candidate["aliases"] and not run.aliases:
        problem = problem or "inputs: it returns the memory of its argument, where the baseline returns new memory"
    if problem:
        return {**answer, "problem": problem}
    largest, worst = 0.0, ""
    found: dict[str, torch.Tensor] = dict(read_parts(Path(file), candidate["parts"], device))
    for place, part in expected.items():
        if isinstance(part, Value):
            continue
        scale = atol if kind == "random" else max(atol, rtol * float(_rms(part)))
        off, passes = apart(found[place], part, rtol, scale)
        largest = off if math.isnan(off) or off > largest else largest
        if not passes:
            worst = worst or place
    answer |= {"largest": largest if math.isfinite(largest) else None, "problem": f"outputs: {worst}" if worst else ""}
    if precise and not worst:
        answer |= _precision(loader, device, seed, kind, expected, found)
    return answer


def _structural(written: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Part]) -> str:
    """Return how the two results differ in their places, types or shapes."""
    for place in written:
        if place not in expected:
            if place.startswith("argument"):
                return f"inputs: it changes {place.removesuffix(' after the call')}, the baseline does not"
            return f"failed: it returns {place}, the baseline does not"
    for place, part in expected.items():
        if place not in written:
            return f"failed: the baseline returns {place}, it does not"
        other = written[place]
        if isinstance(part, Value):
            if other["dtype"] or other.get("value") != repr(part.value)[:1000]:
                return f"failed: {place} is {other.get('value', other['dtype'])}, the baseline's {part.value!r}"[:300]
            continue
        mine = f"{str(part.dtype).removeprefix('torch.')} {tuple(part.shape)}"
        its = f"{other['dtype']} {tuple(other['shape'])}" if other["dtype"] else other.get("value")
        if mine != its:
            return f"failed: {place} is {its}, the baseline's {mine}"
    return ""


def read_parts(file: Path, layout: Sequence[Mapping[str, Any]], device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that `write_parts` wrote. Raises ValueError where the file is shorter than it said."""
    with file.open("rb") as stream:
        for part in layout:
            if not part["dtype"]:
                continue
            dtype = getattr(torch, part["dtype"])
            count = int(np.prod(part["shape"], dtype=np.int64))
            raw = np.fromfile(stream, np.uint8, count * dtype.itemsize)
            if raw.size != count * dtype.itemsize:
                raise ValueError(f"{part['place']} was not written whole")
            plain = torch.from_numpy(raw).view(dtype) if count else torch.empty(0, dtype=dtype)
            yield part["place"], plain.reshape(part["shape"]).to(device)


def apart(found: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> tuple[float, bool]:
    """Return the largest absolute difference (NaN where there is one), and whether all elements are close, as in allclose."""
    if not expected.numel():
        return 0.0, True
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        off = (found.to(torch.float64) - expected.to(torch.float64)).abs().max().item()
        return off, bool((found == expected).all())
    wide = torch.promote_types(expected.dtype, torch.float32)
    found, expected = found.to(wide), expected.to(wide)
    away = (found - expected).abs()
    away = torch.where(found == expected, torch.zeros_like(away), away)  # equal infinities
    close = away <= atol + rtol * expected.abs()
    return away.max().item(), bool(close.all())


def _precision(
    loader: _Loader,
    device: torch.device,
    seed: int,
    kind: InputKind,
    expected: Mapping[str, Part],
    found: Mapping[str, torch.Tensor],
) -> dict[str, float]:
    """Return both errors against the baseline in float64, in units of the type's epsilon.

    Nothing where the baseline does not run in float64, or answers in a narrower type.
    """
    arguments = [
        one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
        for one in loader.arguments(device, seed, kind)
    ]
    try:
        seed_all(seed)
        truth = outputs.parts(taken(loader.function()(*arguments), arguments))
    except Exception:  # noqa: BLE001  a kernel written for one type: then nothing is known
        return {}
    errors: dict[str, float] = {"baseline_error": 0.0, "error": 0.0}
    for place, part in expected.items():
        exact = truth.get(place)
        if not isinstance(part, torch.Tensor) or not part.is_floating_point() or not isinstance(exact, torch.Tensor):
            continue
        if exact.dtype != torch.float64 or exact.shape != part.shape:
            return {}
        floor = torch.finfo(part.dtype).eps
        both = {"baseline_error": part, "error": found[place]}
        for name, out in both.items():
            errors[name] = max(errors[name], correctness.relative_error(out, exact) / floor)
    return {} if math.isnan(errors["error"]) else errors


def _finite(part: torch.Tensor) -> bool:
    return bool(part.isfinite().all()) if part.is_floating_point() else True


def _rms(part: torch.Tensor) -> torch.Tensor:
    return part.abs().to(torch.float64).square().mean().sqrt() if part.numel() else torch.zeros(())


# What a worker answers


def _answer_probe(worker: Worker, **asked: Any) -> dict[str, Any]:
    """Run the file under evaluation on inputs of a seed, and write its results to a file."""
    return probe(worker.device, **asked)


def _answer_compare(worker: Worker, **asked: Any) -> dict[str, Any]:
    """Run the baseline of an evaluation on the same inputs, and compare."""
    return compare(worker.device, **asked)


OPERATIONS = {"probe": _answer_probe, "compare": _answer_compare}
"""Requests of an evaluation (`ratchet.tools`)."""
