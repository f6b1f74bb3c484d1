"""Finding the benchmarks of a tree; each time in a process of its own, since it imports them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.bench.child.registry import imports_first

pytestmark = pytest.mark.no_cover

DISCOVER = """
import dataclasses, json, sys
from pathlib import Path
from ratchet.core.errors import RatchetError
from ratchet.core.bench.child.registry import discover
tree, bench, device, *places = sys.argv[1:]
sys.path[:0] = places
try:
    found = discover(Path(tree), bench, device)
    said = {
        "cases": {case.name: dataclasses.asdict(case) for case in found.cases},
        "order": [case.name for case in found.cases],
        "broken": {each.file: dataclasses.asdict(each) for each in found.broken},
        "benchmarks": {name: made.build.__module__ for name, made in found.benchmarks.items()},
        "torch": "torch" in sys.modules,
    }
except RatchetError as error:
    said = {"error": error.message, "hint": error.hint, "kind": type(error).__name__}
print("\\n" + json.dumps(said))
"""
PLAIN = """
from ratchet import Workload, benchmark

@benchmark(configs={{"small": {{"rows": 2}}, "large": {{"rows": 2000}}}}, devices={devices})
def {name}(device, rows):
    return Workload(run=None, reference=None, dtype="float32", flops=1, bytes=1)
"""
MISSING = """
import {module}
from typing import Any
from ratchet import Workload, benchmark
import ratchet

CONFIGS: dict[str, Any] = {{"small": {{"rows": 2}}, "large": {{"rows": 2000}}}}
CPU = {{"tiny": {{"rows": 1}}}}
TITLE = "renamed"

@benchmark(configs=CONFIGS, devices=("cuda", "cpu"), cpu_configs=CPU)
def constant(device, rows): ...

@ratchet.benchmark(configs={{"literal": {{"rows": 3}}}}, name="other")
def literal(device, rows): ...

@benchmark(configs={{"x": {{"rows": 3}}}}, name=TITLE)
def third(device, rows): ...

@benchmark(configs=made_elsewhere())
def unknown(device, rows): ...

@benchmark
def bare(device): ...

@ratchet.benchmark(devices=("cuda", "cpu"))
def called(device): ...

@print
def undecorated(): ...
"""


def plain(name: str, *devices: str) -> str:
    return PLAIN.format(name=name, devices=devices or ("cuda", "cpu"))


def discover(tree: Path, files: dict[str, str], device: str = "cuda", bench: str = "bench", places: tuple[Path, ...] = ()) -> Any:
    """What `ratchet.core.bench.child.registry.discover` finds in a tree of these files."""
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-c", DISCOVER, str(tree), bench, device, str(tree), *map(str, places)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("init", [True, False])
@pytest.mark.parametrize("bench", ["bench", "perf/my-bench"])
def test_a_tree(init: bool, bench: str, tmp_path: Path) -> None:
    """Every file's benchmarks are listed by file and config, with or without __init__.py, and nothing imports torch."""
    files = {
        f"{bench}/softmax.py": plain("softmax"),
        f"{bench}/copy.py": plain("copying"),
        f"{bench}/_private.py": "raise SystemExit",
        f"{bench}/notes.txt": "",
    } | ({f"{bench}/__init__.py": ""} if init else {})
    found = discover(tmp_path, files, bench=bench)
    assert found["order"] == ["copying/small", "copying/large", "softmax/small", "softmax/large"]
    assert found["cases"]["softmax/large"] == {
        "name": "softmax/large",
        "benchmark": "softmax",
        "config": "large",
        "file": "softmax.py",
        "parameters": {"rows": 2000},
        "skipped": "",
        "import_error": "",
        "fault": "",
        "variants": [],
        "imports_first": [],
    }
    assert (found["broken"], found["torch"]) == ({}, False)


@pytest.mark.parametrize(("device", "constant"), [("cuda", {"constant/small", "constant/large"}), ("cpu", {"constant/tiny"})])
def test_a_missing_module(device: str, constant: set[str], tmp_path: Path) -> None:
    """A file that needs a module which is not installed is skipped by name: literal configs, constants, cpu_configs, name=."""
    files = {"bench/needy.py": MISSING.format(module="triton_missing_xyz.language"), "bench/softmax.py": plain("softmax")}
    found = discover(tmp_path, files, device)
    needy = {name for name, case in found["cases"].items() if case["file"] == "needy.py"}
    assert needy == constant | {"other/literal", "renamed/x", "bare/default", "called/default"}
    assert {found["cases"][name]["skipped"] for name in needy} == {"needs triton_missing_xyz, which is not installed"}
    errors = {found["cases"][name]["import_error"] for name in needy}
    assert errors == {"ModuleNotFoundError: No module named 'triton_missing_xyz' (bench/needy.py:2)"}
    assert found["cases"]["softmax/small"]["skipped"] == found["cases"]["softmax/small"]["import_error"] == ""
    assert found["broken"] == {}
    assert set(found["benchmarks"]) == {"softmax"}


@pytest.mark.parametrize("module", ["mypackage.missing", "bench.missing", "srcpackage.missing"])
def test_a_missing_module_of_the_tree(module: str, tmp_path: Path) -> None:
    """A module that the tree itself should have makes the file broken, not skipped."""
    files = {"perf/bench/needy.py": MISSING.format(module=module), "mypackage/__init__.py": "", "src/srcpackage/__init__.py": ""}
    found = discover(tmp_path, files, bench="perf/bench", places=(tmp_path / "src",))
    assert found["cases"] == {}
    needy = found["broken"]["needy.py"]["cases"]
    assert needy == ["constant/small", "constant/large", "other/literal", "renamed/x", "bare/default", "called/default"]
    assert found["broken"]["needy.py"]["message"] == f"ModuleNotFoundError: No module named '{module}' (perf/bench/needy.py:2)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (:", "SyntaxError: invalid syntax"),
        ("raise ValueError('no\\nsuch \\x1b[31mlayout')", "ValueError: no such layout"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("raise ModuleNotFoundError('odd')", "ModuleNotFoundError: odd"),
        ("class Odd(Exception):\n def __str__(self): raise TypeError\nraise Odd", "<exception str() failed>"),
        ("raise ValueError('\\udcff')", "ValueError:"),
        ("e = ValueError('first'); e.add_note('second'); raise e", "ValueError: first"),
        ("\0", "Error: source code string cannot contain null bytes"),
    ],
)
def test_a_broken_file(text: str, message: str, tmp_path: Path) -> None:
    """A file that cannot be imported costs its own cases only, and says why on one printable line."""
    found = discover(tmp_path, {"bench/broken.py": text, "bench/softmax.py": plain("softmax")})
    assert found["order"] == ["softmax/small", "softmax/large"]
    (broken,) = found["broken"].values()
    assert broken["file"] == "broken.py"
    assert message in broken["message"]
    assert broken["message"].isprintable()
    assert 0 < len(broken["last_lines"]) <= 12


def test_a_broken_file_names_its_cases(tmp_path: Path) -> None:
    """A file that raises at its end still says which cases it would have had."""
    found = discover(tmp_path, {"bench/softmax.py": plain("softmax") + "\nraise RuntimeError\n"})
    assert found["broken"]["softmax.py"]["cases"] == ["softmax/small", "softmax/large"]


@pytest.mark.parametrize(
    ("files", "error", "hint"),
    [
        (
            {"bench/__init__.py": "raise ValueError('no')", "bench/softmax.py": plain("softmax")},
            "__init__.py of bench/ cannot be imported: ValueError: no (bench/__init__.py:1).",
            "",
        ),
        ({"other/x.py": ""}, "There is no folder bench/ in {tree}.", "[tool.ratchet]"),
        (
            {"bench/a.py": plain("softmax"), "bench/b.py": plain("softmax")},
            "bench/a.py and bench/b.py both have a benchmark softmax.",
            "",
        ),
    ],
    ids=["a package that raises", "no folder", "two of one name"],
)
def test_a_tree_that_is_refused(tmp_path: Path, files: dict[str, str], error: str, hint: str) -> None:
    """One sentence says what is wrong, and where."""
    found = discover(tmp_path, files)
    assert (found["kind"], found["error"]) == ("HostError", error.format(tree=tmp_path))
    assert hint in found["hint"]


def test_siblings(tmp_path: Path) -> None:
    """A benchmark imported from a sibling is listed once, in its own file; so is one with a second name."""
    files = {
        "bench/a.py": "from bench.z import softmax\nfrom .z import softmax as again\n" + plain("copying"),
        "bench/z.py": plain("softmax") + "\nalias = softmax\n",
    }
    found = discover(tmp_path, files)
    files_of = {"copying": "a.py", "softmax": "z.py"}
    assert {name: case["file"] for name, case in found["cases"].items()} == {
        f"{name}/{config}": file for name, file in files_of.items() for config in ("small", "large")
    }


def test_functions_from_elsewhere(tmp_path: Path) -> None:
    """A benchmark whose function lives in the tree's own package, or in a private file, is listed where it is declared."""
    build = "from ratchet import Workload\ndef build(device, rows): ...\n"
    files = {
        "mypackage/__init__.py": build,
        "bench/_shared.py": plain("shared"),
        "bench/a.py": "import mypackage\nfrom ratchet import benchmark\n"
        "made = benchmark(configs={'x': {'rows': 1}}, name='made')(mypackage.build)\nfrom ._shared import shared\n",
    }
    assert discover(tmp_path, files)["order"] == ["made/x", "shared/small", "shared/large"]


def test_an_installed_package_of_the_same_name(tmp_path: Path) -> None:
    """The tree's folder wins over an installed package called bench, even one ahead of it on the path."""
    other = tmp_path / "site"
    files = {"bench/softmax.py": plain("softmax"), "bench/a.py": "import bench.softmax"}
    (other / "bench").mkdir(parents=True)
    (other / "bench" / "__init__.py").write_text("raise RuntimeError('the wrong one')")
    (other / "bench" / "softmax.py").write_text(plain("wrong"))
    found = discover(tmp_path / "tree", files, places=(other,))
    assert found["order"] == ["softmax/small", "softmax/large"]
    assert found["broken"] == {}


def test_other_devices(tmp_path: Path) -> None:
    """A benchmark that does not serve the device is listed as skipped, with the configs it has."""
    files = {"bench/a.py": plain("only_cuda", "cuda"), "bench/b.py": plain("only_cpu", "cpu")}
    for device, only_cuda, only_cpu in (("cpu", "runs on cuda only", ""), ("cuda", "", "runs on cpu only")):
        cases = discover(tmp_path, files, device)["cases"]
        skipped = {name: case["skipped"] for name, case in cases.items() if case["config"] == "small"}
        assert skipped == {"only_cuda/small": only_cuda, "only_cpu/small": only_cpu}


@pytest.mark.parametrize("needed", ["missing_xyz", "missing_xyz.part"])
def test_requirements(needed: str, tmp_path: Path) -> None:
    """A declared requirement that is not installed skips the cases on the GPU, and asks nothing of the CPU."""
    text = plain("softmax").replace("configs=", f"requires=['json', {needed!r}], configs=")
    on_cuda, on_cpu = (discover(tmp_path, {"bench/a.py": text}, device) for device in ("cuda", "cpu"))
    assert on_cuda["cases"]["softmax/small"]["skipped"] == f"needs {needed}, which is not installed"
    assert on_cpu["cases"]["softmax/small"]["skipped"] == ""


def test_a_config_that_cannot_work_costs_no_other_one(tmp_path: Path) -> None:
    """Its case says why; those of the same file are listed as ever."""
    text = plain("softmax").replace('"large"', '"too large": {"rows": 3}, "narrow": {"columns": 3}, "large"')
    found = discover(tmp_path, {"bench/softmax.py": text})
    assert found["broken"] == {}
    faults = {name: case["fault"] for name, case in found["cases"].items()}
    assert faults.pop("softmax/too-large-1").startswith("'too large' cannot name a benchmark or config")
    assert faults.pop("softmax/narrow").startswith("softmax/narrow: the function does not take these parameters")
    assert faults == {"softmax/small": "", "softmax/large": ""}


def _imports_later() -> None:
    """Import after something else."""
    import wave as waves
    from json import dumps

    dumps(waves)
    import chunk  # noqa: F401


def _imports_of_its_package() -> None:
    from . import test_space  # noqa: F401


def test_what_a_function_imports_before_anything_else_is_known_without_calling_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded already, what comes later and what depends on the package are left out."""
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    assert imports_first(_imports_later) == ("wave",)
    assert imports_first(_imports_of_its_package) == ()
    assert imports_first(len) == ()
