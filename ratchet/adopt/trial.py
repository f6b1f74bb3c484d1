"""Run candidates for a first benchmark once each, in a child program, and say which ran, which could not here, and why.

The child is this file as a script; it alone imports code of the repository. It appends an answer a line to a file, so that what a
crash costs is the one call that crashed.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.adopt.candidates import BenchmarkIdea, snake
from ratchet.core.processes import run
from ratchet.core.untrusted import clean, last_lines

ENOUGH = 3
"""Benchmarks that are written."""
_TIME_LIMIT_S = 150.0
_MOST_SLOW = 4
"""Calls too large for this machine after which nothing more is tried: a repository of such calls wants a GPU."""
_IMPORT_S = 60
_PATIENCE_S = 10
"""For building and calling one of them."""
_SLOWEST_S = 1.0
"""A first benchmark whose call takes longer is no joy; comparing the results waits for the GPU."""
_SAME = 0.02
"""Relative difference of two results up to which they are the same: atomics add in any order."""
_NO_GPU = re.compile(
    r"NVIDIA driver|active drivers|not compiled with CUDA|CUDA GPUs|CUDA-capable|CUDA driver|libcuda|need a GPU"
    r"|requires? (a )?(CUDA|GPU|NVIDIA)"
    r"|(expected|must be|should be|only supports?|not on|input).{0,40}\b(cuda|gpu)\b|cpu tensor|from a GPU|no.{0,20}accelerator"
    r"|CUDA (is )?not available|CPU.{0,30}not (supported|implemented)|'CPU' backend|is_cuda",
    re.IGNORECASE,
)
"""Words of errors that a machine without a GPU gives."""


@dataclass(frozen=True)
class Trial:
    """One candidate after it was tried."""

    candidate: BenchmarkIdea
    number: int
    """Which of its calls."""
    lacks: str = ""
    """What this machine lacks to run it; empty where it ran."""

    @property
    def ran(self) -> bool:
        return not self.lacks


@dataclass(frozen=True)
class CallTrials:
    """All that was learnt."""

    chosen: tuple[Trial, ...] = ()
    device: str = "cpu"
    missing: str = ""
    """A package without which nothing of the repository can be imported."""
    failure: str = ""
    """The first error, where nothing of the repository can be imported for another reason."""


def try_candidates(
    candidates: Sequence[BenchmarkIdea], root: Path, folders: Sequence[str], built: str, environ: Mapping[str, str]
) -> CallTrials:
    """Import and call the candidates in child programs, until three ran. ``built``: names of compiled modules, as a pattern."""
    answers: list[dict[str, Any]] = []
    deadline = time.monotonic() + _TIME_LIMIT_S
    first = 0
    with tempfile.TemporaryDirectory(prefix="ratchet-init-") as scratch:
        said = Path(scratch, "answers")
        while first < len(candidates) and time.monotonic() < deadline - 5:
            said.write_bytes(b"")
            texts = [[each.module, [each.text(number, "") for number in range(len(each.calls))]] for each in candidates[first:]]
            ran = sum(answer.get("outcome") == "ran" for answer in answers)
            task = {
                "candidates": texts,
                "folders": [str(root / each) for each in folders],
                "root": str(root),
                "wanted": ENOUGH - ran,
            }
            Path(scratch, "task").write_text(json.dumps(task), encoding="utf-8")
            command = [sys.executable, "-P", "-m", "ratchet.adopt.trial", str(Path(scratch, "task")), str(said)]
            ended = run(command, environ=environ, folder=root, time_limit_s=deadline - time.monotonic())
            lines = [json.loads(line) for line in said.read_text(encoding="utf-8").splitlines()]
            for line in lines:
                if "candidate" in line:
                    line["candidate"] += first
            answers += lines
            if not lines:  # torch itself cannot be imported here
                answers.append({"imported": False, "error": (*last_lines(ended.output, 1), "it took too long")[0]})
            if not lines or lines[-1].get("outcome") == "end":
                break
            begun = [line["candidate"] for line in lines if "candidate" in line]
            first = max(begun, default=first) + 1  # that one ended the child
    return _learnt(candidates, answers, built)


def _learnt(candidates: Sequence[BenchmarkIdea], answers: Sequence[Mapping[str, Any]], built: str) -> CallTrials:
    trials: dict[int, Trial] = {}
    for answer in answers:
        number = answer.get("candidate")
        if number is None:
            continue
        candidate = candidates[number]
        if answer["outcome"] == "ran":
            trials[number] = Trial(candidate, answer["text"])
        elif number not in trials and candidate.origins[answer["text"]] and (lacks := _lacks(answer, built)):
            trials[number] = Trial(candidate, answer["text"], lacks)
    device = next((answer["device"] for answer in answers if "device" in answer), "cpu")
    imports = [answer for answer in answers if "imported" in answer]
    was_imported = any(answer["imported"] for answer in imports)
    missing = next((answer["missing"] for answer in imports if answer.get("missing")), "")
    failure = next((answer["error"] for answer in imports if answer.get("error")), "")
    if missing and _is_compiled(missing, built):
        missing, failure = "", f"it needs the compiled module {clean(missing, 80)}, which building the repository makes"
    chosen = _best(trials)
    return CallTrials(
        chosen,
        device,
        "" if was_imported else clean(missing, 80),
        "" if was_imported or missing else clean(failure),
    )


def _lacks(answer: Mapping[str, Any], built: str) -> str:
    """Return what this machine lacks for a candidate that failed; empty where its call itself is at fault."""
    missing = answer.get("missing") or ""
    if missing and _is_compiled(missing, built):
        return f"the compiled module {clean(missing, 80)}; build the repository first"
    if missing:
        return f"the package {clean(missing.partition('.')[0], 80)}"
    if answer.get("too_large"):
        return TOO_LARGE
    return NEEDS_GPU if answer.get("needs_gpu") else ""


def _is_compiled(module: str, built: str) -> bool:
    """Return whether a build of the repository makes a module, by its name or by what the files of the build say."""
    last = re.escape(module.rpartition(".")[2])
    declared = rf"(Extension|_module|_library)\s*\(\s*(name\s*=\s*)?[\"']?([\w.]*\.)?{last}\b"
    return bool(_COMPILED.search(module) or re.search(declared, built))


NEEDS_GPU, TOO_LARGE = "a GPU", "a GPU: on this CPU a call takes more than a second, or more memory than there is"
_COMPILED = re.compile(r"\._C$|\._\w*ext$|\._\w*_cuda$")


def _best(trials: Mapping[int, Trial]) -> tuple[Trial, ...]:
    """Return up to three in order, each of a module of its own if there are enough, at least one of which ran if any did."""
    ordered = [trials[number] for number in sorted(trials)]
    modules: set[str] = set()
    spread = []
    for trial in ordered:
        if not trial.candidate.module or trial.candidate.module not in modules:
            spread.append(trial)
        modules.add(trial.candidate.module)
    spread += [trial for trial in ordered if trial not in spread]
    files: set[str] = set()
    chosen = []
    for trial in spread:
        file = snake(trial.candidate.name)  # a module LayerNorm and a function layer_norm would be one file
        if file not in files:
            chosen.append(trial)
        files.add(file)
    best, ran = chosen[:ENOUGH], [trial for trial in chosen if trial.ran]
    if ran and not any(trial.ran for trial in best):
        best[ENOUGH - 1 :] = ran[:1]
    return tuple(best)


# The child.


def _try(task: Mapping[str, Any], said: Path) -> None:
    """Run benchmarks until enough suit; append what came of each."""
    import torch

    def say(**answer: Any) -> None:
        with said.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(answer) + "\n")

    sys.path[:0] = task["folders"]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        _bound_memory()
    say(device=device.type)
    signal.signal(signal.SIGALRM, _give_up)
    broken: dict[str, dict[str, Any]] = {}
    was_used, wanted, slow = False, task["wanted"], 0
    for number, (module, texts) in enumerate(task["candidates"]):
        say(candidate=number, text=0, outcome="begun")
        package = module.partition(".")[0]
        problem = broken.get(package) or broken.get(module)
        if problem is None and module:
            problem = _import(module, task["folders"])
            say(imported=problem is None, **({} if problem is None else problem))
            if problem:
                # Modules of a package that failed later stay, and would be found by another import here, as in no other process.
                broken[module if package in sys.modules else package] = problem
        if problem is not None:
            say(candidate=number, text=0, outcome="failed", **problem)
            continue
        for place, text in enumerate(texts):
            if torch.cuda.is_initialized() and not was_used:  # by the import, after which no worker could be forked
                break
            was_used = True
            signal.alarm(_PATIENCE_S)
            space: dict[str, Any] = {"__name__": "bench.first", "__file__": str(Path(task["root"], "bench", "first.py"))}
            try:
                exec(compile(text, "bench/first.py", "exec"), space)  # noqa: S102  a text of ours, which calls code of the user
                suits = _suits(space, device)
            except (Exception, SystemExit) as error:  # noqa: BLE001  code of anybody; the next guess may run
                too_large = device.type == "cpu" and _is_too_large(error)
                slow += too_large
                described = _described(error, task["folders"])
                say(candidate=number, text=place, outcome="failed", **described | ({"too_large": True} if too_large else {}))
                continue
            finally:
                signal.alarm(0)
            say(candidate=number, text=place, outcome="ran" if suits else "unfit")
            if suits:
                wanted -= 1
                break
        if not wanted or slow >= _MOST_SLOW:
            break
    say(outcome="end")


def _is_too_large(error: BaseException) -> bool:
    return isinstance(error, TimeoutError | MemoryError) or "can't allocate memory" in str(error)


def _import(module: str, folders: Sequence[str]) -> dict[str, Any] | None:
    """Import a module, or the nearest one above it, which may offer a class; return what went wrong."""
    signal.alarm(_IMPORT_S)
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  code of anybody
        return _described(error, folders)
    finally:
        signal.alarm(0)
    return None


def _described(error: BaseException, folders: Sequence[str]) -> dict[str, Any]:
    is_foreign = isinstance(error, ModuleNotFoundError) and not _is_in(folders, error.name or ".")
    without_path = re.sub(r" \((/[^()]*|unknown location)\)$", "", str(error))
    message = f"{type(error).__name__}: {without_path}"
    name = getattr(error, "name", None)
    missing = name if is_foreign and isinstance(name, str) else ""
    if compiled := re.search(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'", message):
        missing = f"{compiled[2]}.{compiled[1]}" if re.match(r"_C|_\w*ext|\w+_cuda", compiled[1]) else missing
    return {"error": message[:500], "missing": missing, "needs_gpu": bool(_NO_GPU.search(message))}


def _bound_memory() -> None:
    """Let a size that somebody's GPU holds fail here, instead of filling the machine."""
    available = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    used = re.search(r"^VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    if available and used:
        limit = (int(used[1]) + int(available[1]) // 2) << 10
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _is_in(folders: Sequence[str], module: str) -> bool:
    path = module.replace(".", "/")
    return any((Path(folder) / place).exists() for folder in folders for place in (path, f"{path}.py"))


def _give_up(*_: object) -> None:
    raise TimeoutError


def _suits(space: Mapping[str, Any], device: Any) -> bool:
    """Return whether a benchmark's call is quick, gives the same tensors twice, and leaves its inputs alone, as it has to."""
    import torch

    from ratchet.core.workload import Benchmark

    (made,) = (value for value in space.values() if isinstance(value, Benchmark))
    call = made(device=device).run
    inputs = list(_tensors(list(inspect.getclosurevars(call).nonlocals.values())))
    before = [each.clone() for each in inputs]
    first = [each.detach().clone() for each in _tensors(call())]
    started = time.monotonic()
    outputs = list(_tensors(call()))
    same = len(first) == len(outputs) and all(map(_is_same, first, outputs))
    took_s = time.monotonic() - started
    known = {each.untyped_storage().data_ptr() for each in inputs}
    is_new = bool(outputs) and all(each.untyped_storage().data_ptr() not in known for each in outputs)  # a view takes no time
    if device.type == "cpu" and took_s > _SLOWEST_S:
        raise TimeoutError
    return same and took_s < _SLOWEST_S and is_new and all(torch.equal(*pair) for pair in zip(before, inputs, strict=True))


def _is_same(one: Any, other: Any) -> bool:
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    kind = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(kind).nan_to_num(), other.detach().to(kind).nan_to_num()
    return bool((one - other).norm() <= _SAME * one.norm())


def _tensors(tree: object) -> Iterator[Any]:
    """Yield the tensors in lists, tuples, mappings and dataclasses."""
    import torch

    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _tensors(each)
    elif isinstance(tree, Mapping):
        yield from _tensors(list(tree.values()))
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        yield from _tensors([getattr(tree, field.name) for field in dataclasses.fields(tree)])


if __name__ == "__main__":
    _try(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
