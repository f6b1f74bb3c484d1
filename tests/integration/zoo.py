"""A repository whose head has one benchmark for each way to go wrong, checked once for many tests."""

from __future__ import annotations

from pathlib import Path

from tests.integration.playground import LENIENT, PROOF, QUICK, Finished, Playground, commit, new_repository

SECRETS = {"GITHUB_TOKEN": "t0ken-of-ci", "ACTIONS_RUNTIME_TOKEN": "t0ken-of-ci", "RUNNER_TEMP": "/t0ken-of-ci"}

_COMMON = """\
import ctypes, fractions, os, resource, sys, time
import torch
from ratchet import Workload, benchmark

REPEAT = 40
BUILD = {}
FLOPS = {}
EXTRA = {}
CONFIGS = {}


def good(x):
    out = x + 1
    for _ in range(REPEAT):
        out = out + 1
    time.sleep(REPEAT * 5e-5)
    return out


def heavy(x):
    for _ in range(3):
        good(x)
    return good(x)


def workload(x, run, kind):
    fields = dict(flops=FLOPS.get(kind, 41.0 * x.numel()), bytes=8.0 * x.numel())
    return Workload(**{
        "run": lambda: run(x), "reference": lambda: x.double() + 1 + REPEAT, "dtype": "float32",
        "tolerance": {"float32": 1e-3}, **fields, **EXTRA.get(kind, {}),
    })
"""

_KINDS = ["steady", "slower", "faster", "wrong", "nan", "stale", "abort", "segfault", "hang", "memory", "oom", "leaves", "late"]
_KINDS += ["chatty", "ugly", "wire", "unwritable", "changed", "tuned", "secretive", "frail", "fragile"]

_REFERENCE = """
calls = []


def frail(x):
    # In the first pair, in which the head is prepared after the reference; long after it was prepared.
    calls.append(1)
    if torch.initial_seed() == 2025 and len(calls) > 9:
        os.abort()
    return good(x)


def fragile(x):
    calls.append(1)
    if torch.initial_seed() == 2025 and len(calls) > 9:
        raise RuntimeError("gives up")
    return good(x)


RUN = {"faster": heavy, "frail": frail, "fragile": fragile}
"""

_HEAD = """
kept = {}
calls = []


def stale(x):
    return kept.setdefault("out", good(x))


def abort(x):
    print("the last words before the abort")
    os.abort()


def segfault(x):
    ctypes.string_at(0)


def memory(x):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return torch.zeros(1 << 33)


def oom(x):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 GiB.")


def late(x):
    # The seed of the second pair, in which the head is prepared before the reference; long after it was prepared.
    calls.append(1)
    if torch.initial_seed() == 2025 + 2 and len(calls) > 6:
        os.abort()
    return good(x)


def chatty(x):
    if not calls:
        calls.append(1)
        for stream in (sys.stdout, sys.stderr):
            stream.write("\\x1b[2J\\x1b]0;title\\x07rubbish\\r\\0" * 200_000)
    return good(x)


def ugly(x):
    print("\\x1b[31mred \\x1b]8;;http://evil.example\\x07link\\x07 \\u202e")
    raise ValueError("\\x1b[1mbold\\nsecond line")


def wire(x):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\\xffrubbish {\\n")
        except OSError:
            pass
    return good(x)


def tuned_run(BLOCK, WARPS):
    if (BLOCK, WARPS) != (64, 4):
        raise ValueError("these are not the defaults")
    return torch.ones(8)


def secretive(x):
    seen = [name for name, value in os.environ.items() if "t0ken-of-ci" in value]
    if seen:
        raise RuntimeError(f"sees {seen}")
    return good(x)


RUN = {
    "slower": heavy,
    "wrong": lambda x: good(x) * 1.01,
    "nan": lambda x: good(x) * float("nan"),
    "stale": stale,
    "abort": abort,
    "segfault": segfault,
    "hang": lambda x: time.sleep(600),
    "memory": memory,
    "oom": oom,
    "leaves": lambda x: sys.exit(7),
    "late": late,
    "chatty": chatty,
    "ugly": ugly,
    "wire": wire,
    "secretive": secretive,
}
FLOPS = {"changed": 7.0}
ONE = fractions.Fraction(1)  # no JSON
UNWRITABLE = {"run": lambda BLOCK: torch.ones(8), "tune": {"BLOCK": (ONE,)}, "tuning": {"BLOCK": ONE}}
EXTRA = {"unwritable": {"reference": lambda: torch.ones(8), **UNWRITABLE}, "tuned": {
    "run": tuned_run, "reference": lambda: torch.ones(8).double(),
    "tune": {"BLOCK": (32, 64), "WARPS": (4, 8)}, "tuning": {"BLOCK": 64, "WARPS": 4},
    "stages": {"load": lambda: torch.ones(8), "store": lambda: torch.ones(8)},
}}
"""

_BENCHMARK = """

@benchmark(configs={{name: {{"kind": name}} for name in {kinds!r}}}, devices=("cpu",))
def zoo(*, device, kind):
    return workload(torch.randn(2048), RUN.get(kind, good), kind)
"""

_PLAIN = """\
import torch
from ratchet import Workload, benchmark


@benchmark(configs={{"one": {{}}, "two": {{}}}}, devices=("cpu",))
def {name}(*, device):
    x = torch.ones(512)
    return Workload(run=lambda: x + 1, reference=lambda: x.double() + 1, dtype="float32", flops=512, bytes=4096)
"""
_OPTIONAL = "import a_module_that_nobody_has\n" + _PLAIN.format(name="optional")


def check_zoo(folder: Path) -> Finished:
    """Check it, with secrets in the environment and escapes everywhere."""
    new_repository(
        folder / "repo",
        {
            "bench/zoo.py": _COMMON + _REFERENCE + _BENCHMARK.format(kinds=[*_KINDS, "gone"]),
            "bench/broken_head.py": _PLAIN.format(name="broken_head"),
            "bench/broken_base.py": "import torch\nraise RuntimeError('the reference is broken')\n",
            "bench/optional.py": _OPTIONAL,
        },
    )
    commit(
        folder / "repo",
        "everything goes wrong",
        {
            "bench/zoo.py": _COMMON + _HEAD + _BENCHMARK.format(kinds=[*_KINDS, "fresh"]),
            "bench/broken_head.py": _PLAIN.format(name="broken_head").replace("x + 1,", "x + ,"),
            "bench/broken_base.py": _PLAIN.format(name="broken_base"),
        },
    )
    place = Playground(folder)
    done = place.ratchet("check", *QUICK, *PROOF, *LENIENT, "--case-timeout", "10s", env=SECRETS)
    place.assert_clean()
    return done
