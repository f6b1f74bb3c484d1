"""Choose and write the benchmarks that `ratchet init` tries: calls that tests show, KernelBench's problems, and guesses. Pure.

The best come first: what launches a kernel, what a package offers at its top, what its authors benchmark or test most.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import PurePosixPath

from ratchet.adopt.definitions import Definitions
from ratchet.adopt.guesses import Function, guesses_of
from ratchet.adopt.slices import Slice
from ratchet.adopt.usages import Usage, order_of

_PLAIN = re.compile(r"(?:^|[._])(?:ref|reference|naive|eager|baseline|slow|compute_ref)(?=$|[._])")
"""Words in the names of what a kernel is compared with; the kernel itself is the better first benchmark."""
_HELPERS = re.compile(
    r"(?:^|[._])(?:utils?|helpers?|misc|common|compat|types|init|metrics|datasets?|visuali[sz]ation|testing|tests?|benchmarks?)(?=$|[._])"
)
"""Words in the names of what few packages are made for."""
_DEEP = 4
"""Dots in the path of what lies deeper than a package's offers usually do."""
_MOST, _MOST_TEXTS = 60, 4
"""Functions that are tried, and texts of one."""
_GUESSED = ". The sizes are a guess: set those that matter to you"
_ABOVE_BENCH = "parents[1]"
"""The root, as seen from a file of the folder ``bench``."""
_RESERVED = {"torch", "benchmark", "device", "ratchet"}


@dataclass(frozen=True)
class BenchmarkIdea:
    """A function that could be timed, with a text of its benchmark for each way to call it."""

    target: str
    """As it is imported: ``package.ops.norm``; the path of a file of KernelBench."""
    name: str
    """Of its benchmark."""
    module: str
    """The module that is imported; empty where none is."""
    calls: tuple[Slice, ...]
    origins: tuple[str, ...]
    """File and line that each call comes from; empty for a guess."""
    shown: str
    """The call as a person is told."""

    def text(self, number: int, state: str, *, gpu_only: bool = False, bench: str = "bench") -> str:
        """Return the benchmark of one of its calls. ``state`` says whether it ran, ``bench`` is the folder of its file."""
        call, origin = self.calls[number], self.origins[number]
        words = set(re.findall(r"\w+", "\n".join((*call.imports, *call.helpers, *call.body, call.call)))) | _RESERVED
        is_taken = self.name in words or self.name != snake(self.name)
        options = [f'name="{self.name}"'] if is_taken else []
        options += ['devices=["cuda"]'] if gpu_only else []
        indent = "    "
        helpers = [textwrap.indent(helper, indent) + "\n" for helper in call.helpers]  # inside, where they find the device
        above = f"parents[{len(PurePosixPath(bench).parts)}]"
        body = [indent + (line if self.module else line.replace(_ABOVE_BENCH, above)) for line in call.body]
        if body and not call.names_device:
            body = [f"{indent}with device:  # tensors and modules are made there", *(f"{indent}{line}" for line in body)]
        imports = sorted(
            {*call.imports, "import torch", "from ratchet import benchmark"}, key=lambda line: (line[:1] == "f", line)
        )
        parts = [
            f"# Written by `ratchet init`{f' from {origin}' if origin else _GUESSED}.",
            f"# {state}",
            *imports,
            "",
            "",
            f"@benchmark({', '.join(options)})" if options else "@benchmark",
            f"def {'measured' if is_taken else self.name}(device):",
            *helpers,
            *body,
            f"{indent}return lambda: {call.call}",
        ]
        return "\n".join(parts) + "\n"


def candidates(
    used: Sequence[Usage],
    functions: Sequence[Function],
    problems: Sequence[str],
    defined: Definitions,
    offered: Set[str],
    mentions: Mapping[str, int],
) -> tuple[BenchmarkIdea, ...]:
    """Return what could be timed, best first.

    ``functions`` are called by guess, ``problems`` are files of KernelBench, ``mentions`` a word → the files that have it.
    """
    ranked: list[tuple[tuple[object, ...], BenchmarkIdea]] = []
    for target in dict.fromkeys(usage.target for usage in used):
        of_target = [usage for usage in used if usage.target == target]
        order = min(order_of(usage.origin.rpartition(":")[0]) or 0 for usage in of_target)
        name = of_target[0].name
        rank = (*_doubts(target), name not in defined.launching, False, target.count(".") > _DEEP, order, -mentions.get(name, 0))
        ranked.append((rank, _used(target, of_target)))
    known = {candidate.target.rpartition(".")[2] for _, candidate in ranked}
    for function in functions:
        if function.name in known:
            continue
        path = f"{function.module}.{function.name}"
        kernel = function.name in defined.launching
        rank = (
            *_doubts(path),
            not kernel,
            True,
            path.count(".") > _DEEP,
            function.name not in offered,
            -mentions.get(function.name, 0),
        )
        guesses = tuple(guesses_of(function))
        ranked.append((rank, BenchmarkIdea(path, function.name, function.module, guesses, ("",) * len(guesses), function.call)))
    ranked += [((False, False, False, False, False, 0, number), _problem(file)) for number, file in enumerate(problems)]
    ranked.sort(key=lambda one: one[0])
    return tuple(candidate for _, candidate in ranked[:_MOST])


def _doubts(path: str) -> tuple[bool, bool]:
    return bool(_PLAIN.search(path)), bool(_HELPERS.search(path))


def _used(target: str, of_target: Sequence[Usage]) -> BenchmarkIdea:
    shown = of_target[:_MOST_TEXTS]
    calls = tuple(_evaluating(usage) for usage in shown)
    module = target.rpartition(".")[0]
    return BenchmarkIdea(target, of_target[0].name, module, calls, tuple(usage.origin for usage in shown), target)


def _evaluating(usage: Usage) -> Slice:
    """Return the slice with its module in evaluation mode, since dropout never gives the same result twice."""
    call = usage.slice
    if not usage.instance or re.search(r"\.(eval|train)\(", "\n".join(call.body)):
        return call
    return Slice(call.imports, call.helpers, (*call.body, f"{usage.instance}.eval()"), call.call, call.names_device)


def _problem(file: str) -> BenchmarkIdea:
    """Return a problem of KernelBench: its ``Model``, with what ``get_init_inputs`` and ``get_inputs`` return."""
    body = (
        f'problem = runpy.run_path(str(Path(__file__).{_ABOVE_BENCH} / "{file}"))',
        'model = problem["Model"](*problem["get_init_inputs"]()).eval()',
        'inputs = problem["get_inputs"]()',
    )
    call = Slice(("import runpy", "from pathlib import Path"), (), body, "model(*inputs)", names_device=False)
    name = re.sub(r"\W+", "_", PurePosixPath(file).stem).strip("_").lower()
    return BenchmarkIdea(file, f"p{name}" if name[:1].isdigit() else name, "", (call,), (f"{file}:1",), file)


def problems(texts: Mapping[str, str]) -> Iterable[str]:
    """Return files that hold a problem in the form of KernelBench, in the order of their numbers."""
    marks = (r"^class Model\(", r"^def get_inputs\(", r"^def get_init_inputs\(")
    found = [file for file, text in texts.items() if all(re.search(mark, text, re.MULTILINE) for mark in marks)]
    return sorted(found, key=lambda file: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file)])


def snake(name: str) -> str:
    """Return ``RMSNorm`` as ``rms_norm``."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return split.strip("_").lower() or "first"


def example(reasons: Sequence[str]) -> str:
    """Return the text of a benchmark that runs anywhere, and says what to put in its place, and why no function ran."""
    lines = ["Written by `ratchet init`: an example that runs. It times a function of torch; change lines 1 and 2 to yours."]
    comment = "\n".join(f"# {line}" for line in (*lines, *reasons))
    return f"""\
{comment}
import torch
from ratchet import benchmark


@benchmark
def example(device):
    x = torch.randn(4096, 1024, device=device)  # 1: inputs, as your kernel gets them
    return lambda: torch.softmax(x, dim=-1)  # 2: one call
"""
