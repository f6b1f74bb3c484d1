"""What a benchmark leaves changed in its process: it is named, and no other case is measured with it."""

from __future__ import annotations

import json
import os
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.config import Settings
from ratchet.measure.child.host import load
from ratchet.measure.child.loader import LoadedTree
from ratchet.measure.child.worker import Worker
from ratchet.measure.messages import Prepared, Restored, parse
from ratchet.measure.tree_spec import TreeSpec

pytestmark = pytest.mark.no_cover

BENCHMARK = """
import contextlib, decimal, gc, locale, logging, os, random, resource, signal, subprocess, sys, threading, time, warnings
import numpy as np
import torch
from ratchet import Workload, benchmark
{top}

@benchmark(devices=("cpu",))
def {name}(device):
{build}
    x = torch.ones(8, dtype=torch.float32, device="cpu")

    def run():
{run}
        return x + 1

    return Workload(run=run, reference=lambda: x.double() + 1, dtype="float32")
"""

# What a build does → an expression that shows it, in the process where the next case would begin.
LEAKS = {
    "gradients": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled()"),
    "device": ("torch.set_default_device('meta')", "torch.ones(2).device"),
    "precision": ("torch.set_float32_matmul_precision('medium')", "torch.get_float32_matmul_precision()"),
    "deterministic": ("torch.use_deterministic_algorithms(True, warn_only=True)", "torch.get_deterministic_debug_mode()"),
    "variable": ("os.environ['ACME_FAST'] = '1'", "os.environ.get('ACME_FAST')"),
    "a variable less": ("del os.environ['PATH']", "sorted(os.environ)"),
    "warnings": ("warnings.simplefilter('error')", "[each[0] for each in warnings.filters]"),
    "NumPy": ("np.seterr(all='raise')", "np.geterr()"),
    "function": ("torch.nn.functional.relu = torch.nn.functional.gelu", "torch.nn.functional.relu.__name__"),
    "inference": ("torch.mode = torch.inference_mode(); torch.mode.__enter__()", "torch.ones(2).is_inference()"),
    "dispatch": (
        "from torch.utils.flop_counter import FlopCounterMode; FlopCounterMode(display=False).__enter__()",
        "torch._C._len_torch_dispatch_stack()",
    ),
    "autocast": ("torch.autocast('cpu').__enter__()", "(torch.ones(2, 2) @ torch.ones(2, 2)).dtype"),
    "saved tensors": (
        "torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()",
        "torch._C._autograd._top_saved_tensors_default_hooks(True) is None",
    ),
    "recursion": ("sys.setrecursionlimit(5000)", "sys.getrecursionlimit()"),
    "switches": ("sys.setswitchinterval(0.5)", "sys.getswitchinterval()"),
    "locale": ("locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "locale.setlocale(locale.LC_ALL)"),
    "umask": ("os.umask(0o777)", "[line for line in open('/proc/self/status') if 'Umask' in line]"),
    "child": ("subprocess.Popen(['sleep', '60'])", "len(threading._children())"),
    "tracer": ("sys.setprofile(lambda *_: None)", "sys.getprofile()"),
    "module": ("sys.modules['torch.nn.functional'] = torch.nn", "sys.modules['torch.nn.functional'].__name__"),
    "printing": ("torch.set_printoptions(precision=2)", "str(torch.tensor(1.23456))"),
    "attention": ("torch.backends.cuda.enable_math_sdp(False)", "torch.backends.cuda.math_sdp_enabled()"),
}


def forked(work: Callable[[], Any]) -> Any:
    """Return what a function returns in a process of its own, as JSON keeps it."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, json.dumps(work(), default=str).encode())
        except BaseException:  # noqa: BLE001  the parent cannot see it otherwise
            traceback.print_exc()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def bench_file(name: str, *, top: str = "", build: str = "pass", run: str = "pass") -> str:
    lines = {"build": build.splitlines(), "run": run.splitlines()}
    indented = {
        "build": "\n".join(f"    {line}" for line in lines["build"]),
        "run": "\n".join(f"        {line}" for line in lines["run"]),
    }
    return BENCHMARK.format(name=name, top=top, **indented)


def spec_of(folder: Path, files: dict[str, str]) -> TreeSpec:
    for name, text in files.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = (folder / "tree").resolve()
    return TreeSpec.of(Settings(), tree, checkout=tree, device="cpu", gpu_uuid=None)


def prepare(worker: Worker, case: str) -> Prepared:
    asked = {"seed": 1, "clock": "auto", "cache": "cold", "placements": 1, "check": True}
    answer = worker.answer({"op": "prepare", "case": case, **asked})
    assert "trouble" not in answer, answer
    return parse(answer, Prepared)


def seen(expression: str) -> str:
    names: dict[str, Any] = {}
    exec(
        "import decimal, gc, locale, logging, os, random, resource, signal, sys, threading, time, warnings, numpy as np, torch",
        names,
    )
    return str(eval(expression, names))


def measured_after(spec: TreeSpec, expression: str) -> dict[str, Any]:
    """Prepare the benchmark that leaks, and let the worker get ready for the next case."""

    def work() -> dict[str, Any]:
        threading._children = lambda: os.popen(f"pgrep -P {os.getpid()} sleep").read().split()  # type: ignore[attr-defined]
        worker = Worker(load(spec))
        worker.answer({"op": "start", "one_queue": False})
        before = seen(expression)
        prepare(worker, "leaks/default")
        during = seen(expression)
        restored = parse(worker.answer({"op": "restore"}), Restored)
        after = before if restored.spent else seen(expression)
        return {"before": before, "during": during, "after": after, "named": restored.changed, "spent": restored.spent}

    found: dict[str, Any] = forked(work)
    return found


@pytest.mark.parametrize("name", LEAKS)
def test_no_case_begins_in_the_state_that_another_one_left(tmp_path: Path, name: str) -> None:
    """What a build leaves changed is named, and is restored before the next case, or the worker is spent."""
    build, expression = LEAKS[name]
    found = measured_after(spec_of(tmp_path, {"bench/aa.py": bench_file("leaks", build=build)}), expression)
    assert found["before"] != found["during"]
    assert found["after"] == found["before"]
    assert found["named"]


# What importing a file changes is the state of its own cases.

SHOWS = "import builtins\nbuiltins.SEEN = str({expression})"
DTYPE = "torch.get_default_dtype()"


def states(spec: TreeSpec) -> dict[str, Any]:
    """Return what each case's build sees, in a worker of its own, and which files are named for what they changed."""

    def see(tree: LoadedTree, case: str) -> str:
        import builtins

        worker = Worker(tree)
        worker.answer({"op": "start", "one_queue": False})
        prepare(worker, case)
        return str(builtins.SEEN)  # type: ignore[attr-defined]

    def work() -> dict[str, Any]:
        tree = load(spec)
        cases = {case.benchmark: forked(lambda case=case: see(tree, case.name)) for case in tree.catalogue.cases}
        return {"cases": cases, "changed": tree.changed}

    found: dict[str, Any] = forked(work)
    return found


def two_files(expression: str, others: dict[str, str] | None = None, *, aa: str = "", zz: str = "") -> dict[str, str]:
    show = SHOWS.format(expression=expression)
    files = {"bench/aa.py": bench_file("first", top=aa, build=show), "bench/zz.py": bench_file("last", top=zz, build=show)}
    return files | (others or {})


def test_a_file_sets_its_own_cases_alone(tmp_path: Path) -> None:
    """A default dtype that a file sets while it is imported holds for its own cases alone, and the file is named."""
    found = states(spec_of(tmp_path, two_files(DTYPE, aa="torch.set_default_dtype(torch.float64)")))
    assert found["cases"] == {"first": "torch.float64", "last": "torch.float32"}
    assert list(found["changed"]) == ["aa.py"]


def test_a_variable_is_that_of_the_file(tmp_path: Path) -> None:
    """The same holds for a variable of the environment."""
    found = states(spec_of(tmp_path, two_files("os.environ.get('ACME')", aa="os.environ['ACME'] = '1'")))
    assert found["cases"] == {"first": "1", "last": "None"}
    assert list(found["changed"]) == ["aa.py"]


def test_what_a_helper_sets_holds_for_those_that_import_it(tmp_path: Path) -> None:
    """A module that only one file imports sets nothing for the others."""
    helper = {"acme/fast.py": "import torch\ntorch.set_default_dtype(torch.float64)\n"}
    found = states(spec_of(tmp_path, two_files(DTYPE, helper, aa="import acme.fast")))
    assert found["cases"] == {"first": "torch.float64", "last": "torch.float32"}
    found = states(spec_of(tmp_path, two_files(DTYPE, helper, aa="import acme.fast", zz="from acme import fast")))
    assert found["cases"] == {"first": "torch.float64", "last": "torch.float64"}
    assert found["changed"] == {}


def test_what_the_package_of_benchmarks_sets_holds_for_all(tmp_path: Path) -> None:
    """``bench/__init__.py`` is imported before each file, so its settings are those of all cases, and nobody is named."""
    top = {"bench/__init__.py": "import torch\ntorch.set_default_dtype(torch.float64)\n"}
    found = states(spec_of(tmp_path, two_files(DTYPE, top)))
    assert found["cases"] == {"first": "torch.float64", "last": "torch.float64"}
    assert found["changed"] == {}


def test_what_is_set_up_once_holds_for_each_file_that_asks(tmp_path: Path) -> None:
    """A package that sets itself up at the first call, and never again, is set up for the second file that calls it too."""
    package = (
        "import torch\nDONE = []\n\ndef set_up():\n    if not DONE:\n"
        "        torch.set_default_dtype(torch.float64)\n        DONE.append(1)\n"
    )
    once = "import acme\nacme.set_up()"
    found = states(spec_of(tmp_path, two_files(DTYPE, {"acme.py": package}, aa=once, zz=once)))
    assert found["cases"] == {"first": "torch.float64", "last": "torch.float64"}
    assert found["changed"] == {}
