"""What benchmarks build when they are imported."""

from __future__ import annotations

import _ctypes
import shutil

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import Playground

BUILDS = """\
import os
import time
from pathlib import Path

from ratchet import benchmark
from torch.utils.cpp_extension import get_default_build_root

SOURCE = "0.002"
ours = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root()) / "ours"  # as torch's load(name="ours") does
ours.mkdir(parents=True, exist_ok=True)
built = ours / "ours.txt"
if not built.exists():
    built.write_text(SOURCE)


@benchmark
def waits():
    return lambda: time.sleep(float(built.read_text())) or 1
"""


def test_each_side_runs_what_it_built_itself(play: Playground) -> None:
    """An extension's name is the same on both sides: a slower one is seen all the same, and nothing of it stays behind."""
    play.commit({"bench/waits.py": BUILDS})
    play.commit({"bench/waits.py": BUILDS.replace("0.002", "0.02")})
    shared = play.temp.parent / "shared"
    done = play.check("waits/*", "--pairs", "3", env={"TORCH_EXTENSIONS_DIR": str(shared)})
    assert done.outcomes() == {"waits/default": Outcome.SLOWER}, done
    assert not shared.exists()
    play.assert_clean()


def test_a_library_of_the_checkout_is_refused(play: Playground) -> None:
    """A library that both sides load by its path in the checkout is the same code twice: refused, with what to do."""
    library = play.repo / "build" / "ours.so"
    library.parent.mkdir()
    shutil.copy(_ctypes.__file__, library)
    play.commit({".gitignore": "results/\nbuild/\n"})
    loads = f"import ctypes\n\nfrom ratchet import benchmark\n\nctypes.CDLL({str(library)!r})\n"
    loads += "\n\n@benchmark\ndef ours():\n    return lambda: 1\n"
    play.commit({"bench/ours.py": loads})
    done = play.check("ours/*", "--bench-from", "head")
    assert done.code == 3, done
    assert f"loaded ours.so ({library}) instead of its own copy" in done.sentence
    assert "Load it by a path relative to the benchmark file" in done.sentence


CACHES = """\
import time
from pathlib import Path

from ratchet import benchmark

CACHE = Path.home() / ".cache/ours/tuned.txt"
if not CACHE.exists():
    CACHE.parent.mkdir(parents=True, exist_ok=True)  # both sides may find none
    CACHE.write_text("0.002")


@benchmark
def waits():
    return lambda: time.sleep(float(CACHE.read_text())) or 1
"""


def test_a_cache_by_name_is_said(play: Playground) -> None:
    """What one side wrote under a name and the other read stands in the report, and so does a change of dependencies."""
    play.commit({"bench/waits.py": CACHES})
    play.commit({"bench/waits.py": CACHES.replace("0.002", "0.02"), "requirements.txt": "triton\n"})
    done = play.check("waits/*", "--pairs", "3")
    warnings = [warning for warning in done.run.warnings if "too narrow to trust" not in warning]
    assert [warning.partition(":")[0] for warning in warnings] == [
        "Written during the run and used by both sides; if this repository's code makes it, one side had the other's",
        "requirements.txt changed",
    ], warnings
    assert "tuned.txt" in warnings[0]


READS = """\
import subprocess
import sys
import time
from pathlib import Path

from ratchet import benchmark

SCRIPT = "import ours, time; time.sleep(ours.DELAY)"
subprocess.run([sys.executable, "-c", SCRIPT], cwd="/", check=True)  # a program that imports the package
PLACE = Path({!r})


@benchmark
def waits():
    return lambda: time.sleep(float(PLACE.read_text())) or 1
"""


def test_a_file_of_the_checkout_is_refused(play: Playground) -> None:
    """A file that each tree has, and that both would read from the checkout, is refused where it is another one."""
    reads = READS.format(str(play.repo / "delay.txt"))
    play.commit({"bench/waits.py": reads, "delay.txt": "0.002", "ours.py": "DELAY = 0"})
    assert play.check("waits/*", "--pairs", "3", "--base", "HEAD", "--time-identical").code == 0
    play.commit({"delay.txt": "0.02"})
    done = play.check("waits/*", "--pairs", "3")
    assert done.code == 3, done
    assert f"The reference reads delay.txt ({play.repo / 'delay.txt'}) instead of its own copy" in done.sentence


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ninja") or not shutil.which("g++"), reason="needs ninja and g++")
@pytest.mark.no_cover
def test_an_extension_is_compiled_for_each_side(play: Playground) -> None:
    """C++ that torch.utils.cpp_extension compiles at import is that of its own side."""
    source = '#include <torch/library.h>\nTORCH_LIBRARY(ours, m) { m.def("wait() -> int", [] { return int64_t(2); }); }\n'
    bench = """\
import time
from pathlib import Path

import torch
from ratchet import benchmark
from torch.utils.cpp_extension import load

load(name="ours", sources=[str(Path(__file__).parent / "ours.cpp")], is_python_module=False)


@benchmark
def waits():
    return lambda: time.sleep(torch.ops.ours.wait() / 1000) or 1
"""
    play.commit({"bench/waits.py": bench, "bench/ours.cpp": source})
    play.commit({"bench/ours.cpp": source.replace("(2)", "(20)")})
    done = play.check("waits/*", "--pairs", "3")
    assert done.outcomes() == {"waits/default": Outcome.SLOWER}, done
