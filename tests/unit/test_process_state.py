"""What a benchmark leaves changed in its process: it is named, and no other case is measured with it."""

from __future__ import annotations

import _thread
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ratchet.core.bench.child.calls import seed_all
from ratchet.core.bench.child.host import load
from ratchet.core.bench.child.loader import LoadedTree
from ratchet.core.bench.child.worker import Worker
from ratchet.core.bench.messages import BuiltCase, Restored, parse
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.process_state.state import left_running
from tests.forked import forked

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
    "another name": (
        "acme.settings.SLOW = acme.settings.FAST; del acme.settings.FAST",
        "vars(sys.modules['acme.settings']).get('FAST', 'gone')",
    ),
    "printing": ("torch.set_printoptions(precision=2)", "str(torch.tensor(1.23456))"),
    "attention": ("torch.backends.cuda.enable_math_sdp(False)", "torch.backends.cuda.math_sdp_enabled()"),
}
QUICK = ("gradients", "device", "variable", "function")
# Written when the code was finished, and not tried before.
HELD_OUT = {
    "dtype": ("torch.set_default_dtype(torch.float64)", "torch.ones(2).dtype"),
    "TF32": ("torch.backends.cuda.matmul.allow_tf32 = True", "torch.backends.cuda.matmul.allow_tf32"),
    "TF32 of cuDNN": ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", "torch.backends.cudnn.conv.fp32_precision"),
    "cuDNN": ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark"),
    "threads": ("torch.set_num_threads(3)", "torch.get_num_threads()"),
    "folder": ("os.chdir('/')", "os.getcwd()"),
    "anomalies": ("torch.autograd.set_detect_anomaly(True)", "torch.is_anomaly_enabled()"),
    "method": ("torch.Tensor.sin = torch.Tensor.cos", "torch.zeros(1).sin().item()"),
    "method of a module": ("torch.nn.Linear.forward = lambda self, x: x", "torch.nn.Linear(1, 1).forward.__func__.__name__"),
    "operator": (
        "torch.kept = torch.library.Library('aten', 'IMPL')\n"
        "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    torch.kept.impl('sin', torch.clone, 'CPU')",
        "torch.ones(1).sin().item()",
    ),
    "function mode": (
        "from torch.overrides import BaseTorchFunctionMode; BaseTorchFunctionMode().__enter__()",
        "torch._C._len_torch_function_stack()",
    ),
    "device as a context": ("torch.device('meta').__enter__()", "torch.ones(2).device"),
    "denormals": ("torch.set_flush_denormal(True)", "(torch.tensor(1e-310, dtype=torch.float64) * 1).item()"),
    "hook": (
        "torch.nn.modules.module.register_module_forward_hook(lambda module, x, out: out * 2)",
        "len(torch.nn.modules.module._global_forward_hooks)",
    ),
    "hook of optimizers": (
        "import torch.optim.optimizer as each; each.register_optimizer_step_pre_hook(lambda *_: None)",
        "len(sys.modules['torch.optim.optimizer']._global_optimizer_pre_hooks)",
    ),
    "signal": ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal.getsignal(signal.SIGUSR1)"),
    "alarm": (
        "signal.signal(signal.SIGALRM, lambda *_: None); signal.alarm(1000)",
        "signal.getitimer(signal.ITIMER_REAL)[0] > 0",
    ),
    "collector": ("gc.disable()", "gc.isenabled()"),
    "thresholds": ("gc.set_threshold(1, 1, 1)", "gc.get_threshold()"),
    "output": ("import io; sys.stdout = io.StringIO()", "type(sys.stdout).__name__"),
    "decimals": ("decimal.getcontext().prec = 3", "decimal.getcontext().prec"),
    "thread": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "threading.active_count()"),
    "cores": ("os.sched_setaffinity(0, range(os.cpu_count()))", "sorted(os.sched_getaffinity(0))"),
    "niceness": ("os.nice(5)", "os.getpriority(os.PRIO_PROCESS, 0)"),
    "builtin": ("import builtins; builtins.divmod = max", "divmod(7, 2)"),
    "clock": ("time.perf_counter = time.monotonic", "time.perf_counter.__name__"),
    "compiler": (
        "import torch._dynamo.config; torch._dynamo.config.suppress_errors = True",
        "torch._dynamo.config.suppress_errors",
    ),
    "module gone": ("del sys.modules['torch.nn.functional']", "'torch.nn.functional' in sys.modules"),
    "autograd's threads": ("torch.autograd.set_multithreading_enabled(False)", "torch._C._is_multithreading_enabled()"),
    "sharing": ("torch.multiprocessing.set_sharing_strategy('file_system')", "torch.multiprocessing.get_sharing_strategy()"),
    "logging": ("logging.disable(logging.CRITICAL)", "logging.root.manager.disable"),
    "limit": ("resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))", "resource.getrlimit(resource.RLIMIT_NOFILE)[0]"),
    "module of the tree": ("from acme import settings; settings.FAST = True", "__import__('acme.settings').settings.FAST"),
    "constant": ("import math; math.pi = 3", "__import__('math').pi"),
    "C library": (
        "import ctypes; ctypes.CDLL(None).setenv(b'ACME', b'1', 1)",
        "__import__('ctypes').CDLL(None).getenv(b'ACME') != 0",
    ),
}


def answer_of(work: Callable[[], Any]) -> Any:
    """Return what a function returns in a process of its own, as JSON keeps it."""
    return json.loads(forked(lambda writer: os.write(writer, json.dumps(work(), default=str).encode())))


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


def prepare(worker: Worker, case: str) -> BuiltCase:
    asked = {"seed": 1, "clock": "auto", "cache": "cold", "placements": 1, "check": True}
    answer = worker.answer({"op": "prepare", "case": case, **asked})
    assert "trouble" not in answer, answer
    return parse(answer, BuiltCase)


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
        seed_all(0)  # as in each host, which has all that this imports
        worker = Worker(load(spec))
        worker.answer({"op": "start", "one_queue": False})
        before = seen(expression)
        prepare(worker, "leaks/default")
        during = seen(expression)
        restored = parse(worker.answer({"op": "restore"}), Restored)
        after = before if restored.spent else seen(expression)
        return {"before": before, "during": during, "after": after, "named": restored.changed, "spent": restored.spent}

    found: dict[str, Any] = answer_of(work)
    return found


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in {**LEAKS, **HELD_OUT} if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_no_case_begins_in_the_state_that_another_one_left(tmp_path: Path, name: str) -> None:
    """What a build leaves changed is named, and is restored before the next case, or the worker is spent."""
    build, expression = {**LEAKS, **HELD_OUT}[name]
    files = {"bench/aa.py": bench_file("leaks", top="import acme.settings", build=build), "acme/settings.py": "FAST = False\n"}
    found = measured_after(spec_of(tmp_path, files), expression)
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
        cases = {case.benchmark: answer_of(lambda case=case: see(tree, case.name)) for case in tree.catalogue.cases}
        return {"cases": cases, "changed": tree.changed}

    found: dict[str, Any] = answer_of(work)
    return found


def two_files(expression: str, others: dict[str, str] | None = None, *, aa: str = "", zz: str = "") -> dict[str, str]:
    show = SHOWS.format(expression=expression)
    files = {"bench/aa.py": bench_file("first", top=aa, build=show), "bench/zz.py": bench_file("last", top=zz, build=show)}
    return files | (others or {})


DOUBLE = "torch.set_default_dtype(torch.float64)"
HELPER = {"acme/fast.py": f"import torch\n{DOUBLE}\n"}
PACKAGE = {"bench/__init__.py": f"import torch\n{DOUBLE}\n"}
ONCE = {"acme.py": f"import torch\nDONE = []\n\ndef set_up():\n    if not DONE:\n        {DOUBLE}\n        DONE.append(1)\n"}
SET_UP = "import acme\nacme.set_up()"
OF_ONE, OF_BOTH = ["torch.float64", "torch.float32"], ["torch.float64"] * 2


@pytest.mark.parametrize(
    ("files", "seen", "changed"),
    [
        (two_files(DTYPE, aa=DOUBLE), OF_ONE, ["aa.py"]),
        (two_files("os.environ.get('ACME')", aa="os.environ['ACME'] = '1'"), ["1", "None"], ["aa.py"]),
        (two_files(DTYPE, HELPER, aa="import acme.fast"), OF_ONE, ["aa.py"]),
        (two_files(DTYPE, HELPER, aa="import acme.fast", zz="from acme import fast"), OF_BOTH, []),
        (two_files(DTYPE, PACKAGE), OF_BOTH, []),  # imported before each file, so nobody is named
        (two_files(DTYPE, ONCE, aa=SET_UP, zz=SET_UP), OF_BOTH, []),
    ],
    ids=["a default", "a variable", "a module of one file", "a module of both", "the package of benchmarks", "a set-up, once"],
)
def test_a_setting_is_that_of_the_files_that_make_it(
    tmp_path: Path, files: dict[str, str], seen: list[str], changed: list[str]
) -> None:
    """What a file, or what it imports or calls, sets holds for its own cases alone; who differs from others is named."""
    found = states(spec_of(tmp_path, files))
    assert found["cases"] == dict(zip(("first", "last"), seen, strict=True))
    assert list(found["changed"]) == changed


# Written when the code was finished, and not tried before: what importing a file leaves.

PATCH = "import torch\n\ndef half(x):\n    return x / 2\n\ntorch.nn.functional.relu = half\ntorch.nn.Linear.forward = half\n"
PATCHED = "(torch.nn.functional.relu.__name__, torch.nn.Linear.forward.__name__)"
BOTH, NONE = "('half', 'half')", "('relu', 'forward')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "top", "own", "other"),
    [
        ("os.getcwd()", "os.chdir('/')", "/", "{tree}"),
        (PATCHED, PATCH, BOTH, NONE),
        ("torch.ones(2).device.type", "torch.set_default_device('meta')", "meta", "cpu"),
        ("torch.ones(2).is_inference()", "torch.mode = torch.inference_mode(); torch.mode.__enter__()", "True", "False"),
        (
            "torch._C._len_torch_function_stack()",
            "from torch.overrides import BaseTorchFunctionMode\nBaseTorchFunctionMode().__enter__()",
            "1",
            "0",
        ),
        ("signal.getsignal(signal.SIGUSR1).name", "signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "SIG_IGN", "SIG_DFL"),
        ("'acme' in str(warnings.filters)", "warnings.filterwarnings('always', 'acme', UserWarning)", "True", "False"),
        ("np.geterr()['over']", "np.seterr(over='raise')", "raise", "warn"),
        (
            "torch._dynamo.config.suppress_errors",
            "import torch._dynamo.config\ntorch._dynamo.config.suppress_errors = True",
            "True",
            "False",
        ),
        ("sys.getrecursionlimit()", "sys.setrecursionlimit(5000)\nraise_error = None", "5000", "1000"),
    ],
)
def test_what_a_file_sets_is_that_of_its_cases(tmp_path: Path, expression: str, top: str, own: str, other: str) -> None:
    """What one file sets while it is imported holds for its own cases alone, whichever file is imported first."""
    spec = spec_of(tmp_path, two_files(expression, aa=top, zz="import torch._dynamo.config" if "_dynamo" in top else ""))
    found = states(spec)
    assert found["cases"] == {"first": own, "last": other.format(tree=spec.path)}
    assert list(found["changed"]) == ["aa.py"]
    spec = spec_of(
        tmp_path / "other way round", two_files(expression, zz=top, aa="import torch._dynamo.config" if "_dynamo" in top else "")
    )
    found = states(spec)
    assert found["cases"] == {"first": other.format(tree=spec.path), "last": own}
    assert list(found["changed"]) == ["zz.py"]


def test_functions_that_a_package_replaces(tmp_path: Path) -> None:
    """Functions that a module replaces are replaced for each file that imports it, and for no other."""
    files = two_files(PATCHED, {"acme/fast.py": PATCH}, aa="import acme.fast", zz="import acme.fast")
    found = states(
        spec_of(
            tmp_path,
            files | {"bench/mm.py": files["bench/aa.py"].replace("def first", "def middle").replace("import acme.fast", "")},
        )
    )
    assert found["cases"] == {"first": BOTH, "middle": NONE, "last": BOTH}
    assert set(found["changed"]) == {"aa.py", "zz.py"}


def test_a_file_that_breaks_halfway(tmp_path: Path) -> None:
    """What a file has set before its import fails holds for no case."""
    found = states(spec_of(tmp_path, two_files(DTYPE, aa="torch.set_default_dtype(torch.float64)\nraise ValueError")))
    assert found["cases"] == {"last": "torch.float32"}


def test_variables_and_warnings_of_a_package_from_elsewhere(tmp_path: Path) -> None:
    """What an installed package sets in the environment when it is imported stays for all, without a word."""
    package = "import os, warnings\nos.environ['ELSEWHERE'] = '1'\nwarnings.filterwarnings('ignore', 'elsewhere')\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "elsewhere.py").write_text(package)
    top = f"sys.path.append({str(tmp_path / 'site')!r})\nimport elsewhere"
    found = states(spec_of(tmp_path, two_files("os.environ.get('ELSEWHERE')", aa=top, zz="import elsewhere")))
    assert found["cases"] == {"first": "1", "last": "1"}
    assert found["changed"] == {}
    filters = "['acme' in str(warnings.filters), 'elsewhere' in str(warnings.filters)]"
    top += "\nwarnings.filterwarnings('error', 'acme')"
    found = states(spec_of(tmp_path, two_files(filters, aa=top, zz="import elsewhere")))
    assert found["cases"] == {"first": "[True, True]", "last": "[False, True]"}
    assert list(found["changed"]) == ["aa.py"]


def test_more_threads_than_cores(tmp_path: Path) -> None:
    """A package that asks torch for more threads than a measurement on the CPU has gets as many as that has; fewer are kept."""
    spec = spec_of(tmp_path, two_files("torch.get_num_threads()", aa="torch.set_num_threads(7)", zz="torch.set_num_threads(2)"))
    spec = replace(spec, share=spec.share._replace(threads=3))

    def work() -> dict[str, Any]:
        os.sched_setaffinity = lambda *_: None  # this machine may have fewer
        torch.set_num_threads(3)  # as OMP_NUM_THREADS does
        return states(spec) | {"threads": load(spec).threads}

    found = answer_of(work)
    assert found["cases"] == {"first": "3", "last": "2"}
    assert found["threads"] == 7


def test_a_thread_that_python_only_met_is_not_left_running() -> None:
    """A thread of C code that asked Python for the current thread was not begun by a case; one that Python began was."""
    before, met, end = left_running()["threads"], threading.Event(), threading.Event()

    def of_c_code() -> None:
        threading.current_thread()
        met.set()
        end.wait(30)

    _thread.start_new_thread(of_c_code, ())
    assert met.wait(30)
    assert left_running()["threads"] == before
    begun = threading.Thread(target=end.wait, args=(30,))
    begun.start()
    assert left_running()["threads"] == before | {begun.ident}
    end.set()
    begun.join()
