"""Two evaluators as people write them in an hour, to see that a cheat of tests/cheats/boundary is one: both believe it.

    python research/naive_evaluator.py tests/cheats/boundary/some_cheat.py [--processes] [--input 512x512]

The first times calls in one process, on a few inputs in rotation. ``--processes`` starts a process for each file, hands over
batches of fresh inputs in shared memory, takes the time by its own clock, and compares one result of each batch: the boundary
without anything that makes it hold. Both print the speed-up that they would report, and whether all compared results were right.
"""

from __future__ import annotations

import argparse
import importlib.util
import mmap
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

BATCH, PAIRS = 8, 30
RTOL, ATOL = 1e-3, 1e-5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("candidate", type=Path)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--input", action="append")
    given = parser.parse_args()
    text = given.candidate.read_text(encoding="utf-8")
    named = re.search(r"^# baseline: (\w+)$", text, re.MULTILINE)
    baseline = given.candidate.parent / "baselines" / f"{named[1] if named else 'softmax'}.py"
    specs = given.input or re.findall(r"--input (\S+)", text) or ["512x512"]
    ratio, right = (processes if given.processes else loop)(baseline, given.candidate, specs)
    print(f"{given.candidate.stem}: {ratio:.2f} times as fast, {right:.0%} of the compared results right")


def kernel_of(path: Path) -> Callable[..., Any]:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.kernel  # type: ignore[no-any-return]


def drawn(spec: str, seed: int) -> torch.Tensor:
    """Return one argument of a form such as ``64x64:int64:0..9``."""
    sizes, _, rest = spec.partition(":")
    shape = tuple(map(int, sizes.split("x")))
    kind, _, bounds = rest.partition(":")
    dtype = getattr(torch, kind or "float32")
    torch.manual_seed(seed)
    if bounds:
        low, high = map(int, bounds.split(".."))
        return torch.randint(low, high, shape).to(dtype)
    return torch.randn(shape).to(dtype)


def tensors(result: Any) -> Iterator[torch.Tensor]:
    """Yield the leaves of a result."""
    if isinstance(result, dict):
        result = [result[key] for key in sorted(result)]
    if isinstance(result, (list, tuple)):
        for one in result:
            yield from tensors(one)
    elif result is not None:
        yield torch.as_tensor(result)


def agree(ours: Iterator[torch.Tensor], theirs: Iterator[torch.Tensor]) -> bool:
    return all(
        a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=RTOL, atol=ATOL, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def loop(baseline: Path, candidate: Path, specs: list[str]) -> tuple[float, float]:
    """Check, warm up, time both, check again."""
    right, seconds = [], []
    slow = kernel_of(baseline)
    for path in (baseline, candidate):
        kernel = slow if path == baseline else kernel_of(path)
        inputs = [[drawn(spec, seed) for spec in specs] for seed in range(3)]
        first = kernel(*(x.clone() for x in inputs[0]))
        right.append(agree(tensors(first), tensors(slow(*(x.clone() for x in inputs[0])))))
        times = []
        for number in range(40):
            fresh = [x.clone() for x in inputs[number % 3]]
            start = time.perf_counter()
            last = kernel(*fresh)
            times.append(time.perf_counter() - start)
        right.append(agree(tensors(last), tensors(slow(*(x.clone() for x in inputs[39 % 3])))))
        seconds.append(statistics.median(times))
    return seconds[0] / seconds[1], statistics.mean(right)


class Side:
    """A process that answers batches, and the memory that it shares with us."""

    def __init__(self, path: Path, inputs: list[torch.Tensor], outputs: list[torch.Tensor], folder: Path, name: str) -> None:
        self.ins = [shared(folder / f"{name}.in{at}", x) for at, x in enumerate(inputs)]
        self.outs = [shared(folder / f"{name}.out{at}", x) for at, x in enumerate(outputs)]
        shapes = repr([[(tuple(x.shape), str(x.dtype)) for x in one] for one in (inputs, outputs)])
        command = [sys.executable, __file__, "runner", str(path), str(folder / name), shapes]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.process.stdout.readline()

    def seconds(self) -> float:
        """Time one batch, by the clock of this process."""
        assert self.process.stdin
        assert self.process.stdout
        start = time.perf_counter()
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return time.perf_counter() - start


def shared(path: Path, like: torch.Tensor) -> torch.Tensor:
    """Return a batch of such tensors in a file that processes share."""
    size = max(1, BATCH * like.nbytes)
    with path.open("a+b") as file:
        file.truncate(size)
        memory = mmap.mmap(file.fileno(), size)
    if not like.numel():
        return torch.empty((BATCH, *like.shape), dtype=like.dtype)
    return torch.frombuffer(memory, dtype=like.dtype, count=BATCH * like.numel()).view(BATCH, *like.shape)


def runner(path: Path, name: Path, shapes: str) -> None:
    """Answer batches until the pipe closes."""
    kinds = eval(shapes, {"__builtins__": {}})  # noqa: S307  of our own parent
    ins, outs = (
        [
            shared(Path(f"{name}.{what}{at}"), torch.empty(shape, dtype=getattr(torch, kind[6:])))
            for at, (shape, kind) in enumerate(each)
        ]
        for what, each in zip(("in", "out"), kinds, strict=True)
    )
    kernel = kernel_of(path)
    print("ready", flush=True)
    for _ in sys.stdin:
        for number in range(BATCH):
            result = kernel(*(x[number] for x in ins))
            for out, leaf in zip(outs, tensors(result), strict=True):
                out[number].copy_(leaf)
        print("done", flush=True)


def processes(baseline: Path, candidate: Path, specs: list[str]) -> tuple[float, float]:
    """Alternate batches of fresh inputs; compare one result of each."""
    slow, right = kernel_of(baseline), []
    times: list[list[float]] = [[], []]
    inputs = [drawn(spec, 0) for spec in specs]
    outputs = list(tensors(slow(*(x.clone() for x in inputs))))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        sides = [Side(path, inputs, outputs, Path(folder), path.stem) for path in (baseline, candidate)]
        for _ in range(PAIRS):
            seeds, chosen = [random.getrandbits(48) for _ in range(BATCH)], random.randrange(BATCH)
            for which in (0, 1):
                side = sides[which]
                for number, seed in enumerate(seeds):
                    for memory, spec in zip(side.ins, specs, strict=True):
                        memory[number].copy_(drawn(spec, seed))
                expected = list(tensors(slow(*(memory[chosen].clone() for memory in side.ins))))
                times[which].append(side.seconds())
                right.append(agree((out[chosen] for out in side.outs), iter(expected)))
        for side in sides:
            side.process.kill()
            side.process.wait()
    return statistics.median(times[0]) / statistics.median(times[1]), statistics.mean(right)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "runner":
        runner(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
    else:
        main()
