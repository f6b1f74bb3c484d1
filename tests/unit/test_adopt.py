"""`ratchet init`: what it sees in a repository, and what it adds to files that are there."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import tomllib
import types
import weakref
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from ratchet.adopt import cli, init
from ratchet.adopt.candidates import BenchmarkIdea, candidates, example
from ratchet.adopt.definitions import Definitions
from ratchet.adopt.files import (
    TEMPLATES,
    WORKFLOW_FOLDER,
    has_settings,
    with_ignored,
    with_settings,
    workflow_values,
)
from ratchet.adopt.guesses import Function
from ratchet.adopt.harnesses import FoundHarness, TriedHarness, harnesses
from ratchet.adopt.init import InitRequest, drift
from ratchet.adopt.slices import Slice
from ratchet.adopt.survey import Survey, survey
from ratchet.adopt.trial import CallTrials, _learnt
from ratchet.core.config import Settings
from ratchet.core.errors import UsageError
from ratchet.core.workload import Benchmark
from tests.integration.playground import git, new_repository

pytestmark = pytest.mark.no_cover

COMMIT = "c" * 40
TENSORS = "import torch\n\n\ndef scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:\n    return x * by\n"


def shown(found: Survey) -> set[str]:
    return {candidate.shown for candidate in found.candidates}


def surveyed(folder: Path, files: dict[str, str]) -> Survey:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return survey(folder, sorted(files))


@pytest.mark.parametrize(
    ("tool", "name", "text"),
    [
        ("Triton", "k/soft.py", "import torch\nimport triton.language as tl\n"),
        ("CUDA", "csrc/k.cu", "__global__ void k() {}\n"),
        ("CMake", "CMakeLists.txt", "project(k)\n"),
        ("setup.py", "setup.py", "from setuptools import setup\n"),
    ],
)
def test_tools_are_seen(tool: str, name: str, text: str, tmp_path: Path) -> None:
    """Each tool is known by a file that shows it, and by none whose name only ends like that."""
    assert surveyed(tmp_path, {name: text, "tests/test_setup.py": "", "OldCMakeLists.txt": ""}).tools == {tool: (name,)}


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        ("The build `make` failed with status 2: /tmp/gone/k.cu: no", "The build `make` failed with status 2"),
        ("The command `k` ended with status -6. It printed: /tmp/gone | no.", "The command `k` ended with status -6."),
        ("there is no GPU here", "there is no GPU here"),
    ],
)
def test_settings_say_why_another_harness_is_not_the_one(problem: str, shown: str, tmp_path: Path) -> None:
    """They leave out what it printed; and a build is offered where its file is at the root, as the command takes it."""
    harness = FoundHarness("speed", (("./speed", "{out}"),), "json")
    offered = {}
    for folder in ("", "libs/"):
        found = surveyed(tmp_path, {f"{folder}setup.py": "", f"{folder}CMakeLists.txt": ""})
        text = init._settings("", Settings(), found, [TriedHarness(harness, problem=problem)], CallTrials())
        assert f"# speed, in place of bench/ ({shown}): command = " in text
        offered[folder] = re.findall(r"^# build = .*(setup\.py|cmake) ", text, re.MULTILINE)
    assert offered == {"": ["cmake", "setup.py"], "libs/": []}


def test_functions_are_found_where_they_are_imported_from(tmp_path: Path) -> None:
    """In a flat layout, a src layout, and the projects of a monorepo; only the folders of what is timed go into python_path."""
    files = {"flat/__init__.py": "", "flat/sub/__init__.py": "", "flat/sub/k.py": TENSORS, "src/laid/__init__.py": TENSORS}
    files |= {"libs/a/pyproject.toml": "", "libs/a/src/inner/__init__.py": TENSORS, "legacy/training/inside/__init__.py": TENSORS}
    found = surveyed(tmp_path, files)
    assert shown(found) == {"flat.sub.k.scale(x)", "laid.scale(x)", "inner.scale(x)", "legacy.training.inside.scale(x)"}
    assert found.python_path(["flat.sub.k", "laid"]) == (".", "src")
    assert found.python_path(["legacy.training.inside"]) == (".", "src")
    assert found.python_path(["inner"]) == (".", "src", "libs/a/src")


def test_what_a_package_offers_from_a_private_module_is_imported_from_the_package(tmp_path: Path) -> None:
    """Many packages keep their code in private modules; names that the package does not offer stay private."""
    text = "import torch\ndef dct(x): ...\ndef helper(x): ...\ndef _inner(x): ...\n"
    found = surveyed(tmp_path, {"k/__init__.py": "from ._inner import dct\n", "k/_inner.py": text, "_inner.py": text})
    assert [each.shown for each in found.candidates] == ["k.dct(x)"]


CONFIG = "@dataclass\nclass Args:\n    n_embd: int = 96\n"


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("def f(q, k, v, scale=None): ...", "k.f.f(q, k, v)"),
        ("def f(input: 'torch.FloatTensor', dim: int): ...", "k.f.f(input, dim=-1)"),
        ("def f(x: Float[Tensor, 'b n'], *, eps: float): ...", "k.f.f(x, eps=1e-6)"),
        ("warnings.filterwarnings('ignore')\ndef f(x): ...", "k.f.f(x)"),
        ("class Norm(nn.Module):\n    def forward(self, x): ...", "k.f.Norm()(x)"),
        (
            "class A(torch.nn.Module):\n    def __init__(self, dim, heads=8): ...\n    def forward(self, q, k, mask=None): ...",
            "k.f.A(dim=512)(q, k)",
        ),
        (
            f"{CONFIG}class A(nn.Module):\n    def __init__(self, config): ...\n    def forward(self, x): ...",
            "k.f.A(config=Args())(x)",
        ),
        (
            f"{CONFIG}class A(nn.Module):\n    def __init__(self, a: Args): ...\n    def forward(self, idx): ...",
            "k.f.A(a=Args())(idx)",
        ),
    ],
)
def test_other_people_s_functions_and_modules_are_guessed_at(text: str, call: str, tmp_path: Path) -> None:
    """Tensors are known by the usual names too, numbers and the sizes of a module get usual values."""
    (found,) = surveyed(tmp_path, {"k/__init__.py": "", "k/f.py": f"import torch\n{text}\n"}).candidates
    assert found.shown == call
    if text.startswith(CONFIG):  # as wide as the configuration says
        assert "= torch.randn(2, 256, 96, device=device)" in found.text(0, "")
        assert all("from k.f import Args\n" in found.text(number, "") for number in range(2))


@pytest.mark.parametrize(
    "text",
    [
        "def f(path, x): ...",
        "def f(): ...",
        "class A(nn.Module):\n    def __init__(self, config): ...\n    def forward(self, x): ...",
        f"{CONFIG}    depth: int\nclass A(nn.Module):\n    def __init__(self, config): ...\n    def forward(self, x): ...",
        f"{CONFIG[10:]}class A(nn.Module):\n    def __init__(self, config): ...\n    def forward(self, x): ...",
        "class A(nn.Module):\n    def __init__(self, net: torch.Tensor): ...\n    def forward(self, x): ...",
        "class A(nn.Module):\n    def forward(self, x, labels): ...",
        "class A(Function):\n    def forward(ctx, x): ...",
        "class A(nn.Module): ...",
        "def f(x: torch.Tensor, n: int): ...",
        "def f(x: torch.Tensor, *, n): ...",
        "def _f(x: torch.Tensor): ...",
        "@jit\ndef f(x: torch.Tensor): ...",
        "def f(x: torch.Tensor): ...\nf(torch.ones(3))",
        "def f(:",
    ],
)
def test_what_needs_more_than_a_guess_is_not_offered(text: str, tmp_path: Path) -> None:
    """One required argument that nobody can guess is enough, a class has to be a module, a name public, and a file no script."""
    assert surveyed(tmp_path, {"k/__init__.py": "", "k/f.py": f"import torch\n{text}\n"}).candidates == ()


def test_a_file_that_does_not_know_torch_offers_nothing(tmp_path: Path) -> None:
    """Its arguments are no tensors, whatever they are called."""
    assert surveyed(tmp_path, {"k/__init__.py": "", "k/f.py": "def f(x):\n    return x\n"}).candidates == ()


def test_kernels_and_what_a_package_offers_come_first(tmp_path: Path) -> None:
    """Then come other functions, then helpers, references last, whatever the order of the files."""
    files = {"k/__init__.py": "from .b import b\n", "k/sub/__init__.py": ""}
    files |= {f"k/{name}.py": f"import torch\ndef {name}(x): ...\n" for name in ("a", "b", "utils", "naive")}
    files["k/z.py"] = "import torch\nimport triton\ndef z(x):\n    z_kernel[(1,)](x)\n"
    calls = [each.shown for each in surveyed(tmp_path, files).candidates]
    assert calls == ["k.z.z(x)", "k.b.b(x)", "k.a.a(x)", "k.utils.utils(x)", "k.naive.naive(x)"]


def test_a_repository_is_read_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trees of thousands of files are not held together: with each one, Python would take longer for the next."""
    seen: list[weakref.ref[ast.Module]] = []
    alive: list[int] = []

    def parsed(text: str) -> ast.Module:
        alive.append(sum(tree() is not None for tree in seen))
        tree = ast.parse(text)
        seen.append(weakref.ref(tree))
        return tree

    monkeypatch.setattr("ratchet.adopt.survey.parsed", parsed)
    found = surveyed(tmp_path, {f"k/{name}.py": TENSORS for name in ("__init__", "a", "b", "c", "d")})
    assert (len(found.candidates), len(alive)) == (5, 5)
    assert max(alive) <= 1  # the one before


def test_functions_of_tests_are_not_offered(tmp_path: Path) -> None:
    """What lies in tests, docs, scripts and setup.py is nothing that a package offers."""
    files = {"tests/__init__.py": "", "tests/k.py": TENSORS, "scripts/k.py": TENSORS, "setup.py": TENSORS}
    assert surveyed(tmp_path, files).candidates == ()


def test_settings_go_to_the_end() -> None:
    """What is in pyproject.toml stays byte for byte, with its line ends."""
    for old in ("", "# mine\n[project]\nname='x'   # odd", "[tool.other]\r\na = [1,\r\n  2]\r\n", "[tool.other.sub]\nb=1\n"):
        new = with_settings(old or None, {"bench": '"bench"'}, {"bench": "note", "CMake": "build = 1"})
        assert new.startswith(old)
        assert tomllib.loads(new)["tool"]["ratchet"] == {"bench": "bench"}
        assert has_settings(new)
        assert new.count("\r\n") in (0, new.count("\n"))


@pytest.mark.parametrize("folder", ["libs/a", "böse", "🚀 kernels"])
def test_settings_name_the_folders_that_a_harness_ran_with(folder: str, tmp_path: Path) -> None:
    """Else its benchmarks could import nothing in a check; the name of a folder may have any characters."""
    found = surveyed(tmp_path, {f"{folder}/setup.py": "", f"{folder}/src/inner/__init__.py": TENSORS})
    harness = FoundHarness("speed", (("./speed", f"{folder}/{{out}}"),), "json", build=("make", folder))
    text = init._settings("", Settings(), found, [TriedHarness(harness, cases=1)], CallTrials())
    settings = tomllib.loads(text)["tool"]["ratchet"]
    assert settings["python_path"] == [".", "src", f"{folder}/src"]
    assert (settings["command"], settings["build"]) == (["./speed", f"{folder}/{{out}}"], ["make", folder])


def test_settings_that_are_there_are_a_person_s_to_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another harness runs, the first step says what to add to them, since no line of theirs is touched."""
    new_repository(tmp_path / "repo", {"pyproject.toml": "[tool.ratchet]\npairs = 30\n", "asv.conf.json": "{}\n"})
    monkeypatch.setattr(init, "try_harness", lambda harness, *_: TriedHarness(harness, cases=2))
    plan = init.plan_init(InitRequest(tmp_path / "repo"), {}, lambda _: True)
    assert "Your asv benchmarks can be timed: 2 cases ran here." in cli._lines(plan, dry_run=False)
    step, _, added = plan.to_do[0].partition(" to [tool.ratchet] in pyproject.toml: ")
    assert step == "To time your asv benchmarks, add"
    assert tomllib.loads(added.replace("; ", "\n")) == {
        "command": ["python", "-m", "ratchet.harness.run_asv", "{dir}"],
        "format": "asv",
    }


def test_a_person_may_let_nothing_run(tmp_path: Path) -> None:
    """The question names what would run; what is written then says that it did not, and blames no inputs."""
    new_repository(tmp_path / "repo", {"k/__init__.py": TENSORS, "asv.conf.json": "{}\n"})
    words: list[str] = []
    plan = init.plan_init(InitRequest(tmp_path / "repo"), {}, words.extend)  # type: ignore[arg-type]
    assert words == ["python -m ratchet.harness.run_asv {dir}", "k.scale(x)"]
    assert "\n# These did not run here: k.scale(x).\n" in plan.files[0].new
    assert any("Or time your asv benchmarks (not tried): " in step for step in plan.to_do)


@pytest.mark.parametrize(
    ("words", "asks"), [("", True), ("--dry-run", True), ("--yes", False), ("--yes --dry-run", False), ("--json", False)]
)
def test_who_is_asked_before_code_runs(words: str, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at a terminal, unless an option says otherwise: a dry run writes nothing, but runs the same code."""
    new_repository(tmp_path / "repo", {"asv.conf.json": "{}\n"})
    questions: list[str] = []
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("click.confirm", lambda question, **_: questions.append(question))
    monkeypatch.setattr(init, "try_harness", lambda harness, *_: TriedHarness(harness, problem="no"))
    cli.init_command.main([*words.split(), "--repo", str(tmp_path / "repo")], standalone_mode=False)
    assert bool(questions) == asks


@pytest.mark.parametrize("other", [{"bench/data.txt": "1\n"}, {".gitignore": "bench/\n"}])
def test_benchmarks_get_a_folder_of_their_own(other: dict[str, str], tmp_path: Path) -> None:
    """Where the usual one has other files, or git ignores it, what is written can be committed all the same."""
    new_repository(tmp_path / "repo", {"pyproject.toml": "[project]\n", **other})
    plan = init.plan_init(InitRequest(tmp_path / "repo"), {}, lambda _: False)
    assert plan.files[0].path == "ratchet_bench/first.py"
    assert tomllib.loads(plan.files[-1].new)["tool"]["ratchet"]["bench"] == "ratchet_bench"


@pytest.mark.parametrize("bench", ["./perf/bench/", "."])
def test_folders_may_be_written_in_any_way(bench: str, tmp_path: Path) -> None:
    """Benchmarks that are there are seen, those that are not are written and named as git has them, and so are results."""
    files = {"pyproject.toml": f'[tool.ratchet]\nbench = "{bench}"\nresults = "./out/"\n'}
    files |= {"perf/bench/old.py": "# caf\udce9\n", "perf/bench/scale.py": "x = 1\n"}
    new_repository(tmp_path / "repo", {"a.py": "x = 1\n"})
    for name, text in files.items():
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    request = InitRequest(tmp_path / "repo")
    plan = init.plan_init(request, {}, lambda _: False)
    first = str(PurePosixPath(bench, "first.py"))
    assert [file.path for file in plan.files] == [first, ".gitignore"]
    assert plan.files[1].new.endswith("out/*\n!out/baseline.json\n")
    assert (plan.to_do[0].startswith(f"In {first}, change the lines"), plan.times_torch) == (True, True)
    assert f" {first.partition('/')[0]} " in plan.to_do[1]
    init.write_plan(plan)
    assert init.plan_init(request, {}, lambda _: False).files == ()


@pytest.mark.parametrize("old", ["tool = {other = 1}\n", "[[tool]]\n", "[project\n", "[tool.ratchet]\n"])
def test_a_file_that_takes_no_table_is_left_alone(old: str) -> None:
    """Where a table at the end would not be read as ours, a sentence says what to write."""
    with pytest.raises(UsageError, match="can take no table at its end"):
        with_settings(old, {"bench": '"bench"'}, {})


def test_ignored_lines_are_added_once() -> None:
    """Lines that are there, also with a slash before them, are not added again."""
    once = with_ignored("*.o", "results", is_hidden=False)
    assert once == "*.o\nresults/*\n!results/baseline.json\n"
    assert with_ignored(once, "results", is_hidden=False) == once
    assert with_ignored("/results/*\n!/results/baseline.json\n", "results", is_hidden=False).count("results") == 2
    assert with_ignored("*.json\n", "results", is_hidden=False) == "*.json\nresults/*\n!results/baseline.json\n"


@pytest.mark.parametrize("folder", ["results/", "/results", "**/results/", "res*", "results/*"])
@pytest.mark.parametrize("place", [".gitignore", "../.gitignore", "../.git/info/exclude"])
def test_a_baseline_gets_out_of_an_ignored_folder(folder: str, place: str, tmp_path: Path) -> None:
    """git looks at no file of a folder that any of its files ignores as a whole, so the folder is taken in again first."""
    new_repository(tmp_path / "repo", {"project/setup.py": "# a project\n"})
    root = tmp_path / "repo/project"
    (root / place).write_text(f"{folder}\n")
    request = InitRequest(root)
    init.write_plan(init.plan_init(request, {}, lambda _: False))
    text = (root / ".gitignore").read_text()
    if place == ".gitignore" and not folder.endswith("*"):
        assert text == f"{folder}\n!results/\nresults/*\n!results/baseline.json\n"
    (root / "results").mkdir()
    for name in ("baseline.json", "report.json"):
        (root / "results" / name).write_text("{}")
    assert git(root, "ls-files", "--others", "--exclude-standard", "results").split() == ["results/baseline.json"]
    assert init.plan_init(request, {}, lambda _: False).files == ()


@pytest.mark.parametrize(
    ("github", "labels", "python", "wrong"),
    [
        ("octo/ratchet@main", "gpu", "python3", "all 40 digits"),
        ("octo/ratchet", "gpu", "python3", "all 40 digits"),
        (f"octo/ratchet@{COMMIT}", "[gpu", "python3", "not a list of labels"),
        (f"octo/ratchet@{COMMIT}", '["a b"]', "python3", "not a list of labels"),
        (f"octo/ratchet@{COMMIT}", "[]", "python3", "not a list of labels"),
        (f"octo/ratchet@{COMMIT}", "gpu'\n  x: 1", "python3", "not a list of labels"),
        (f"octo/ratchet@{COMMIT}", "gpu", "python3; rm", "not the path of a program"),
    ],
)
def test_values_that_do_not_fit_a_workflow(github: str, labels: str, python: str, wrong: str) -> None:
    """A moving reference, and text that would become YAML of its own, are refused."""
    with pytest.raises(UsageError, match=wrong):
        workflow_values(github, labels, python, "main")


def test_every_first_benchmark_is_python() -> None:
    """Also for a function that has the name of its package or of what the file imports."""
    functions = [Function("k.norm", "norm", ("x", "weight")), *(Function("k", name, ("x",)) for name in ("k", "torch", "timed"))]
    functions += [Function("k", name, ("x",), (("dim", "512"),), is_module=True) for name in ("RMSNorm", "Norm2", "Benchmark")]
    found = candidates([], functions, ["level1/1_Square.py"], Definitions(), set(), {})
    assert len(found) == len(functions) + 1
    for candidate in found:
        for number in range(len(candidate.calls)):
            text = candidate.text(number, "It ran here.", gpu_only=True)
            space: dict[str, object] = {}
            exec("\n".join(line for line in text.splitlines() if "from k" not in line), space)
            made = [each for each in space.values() if isinstance(each, Benchmark)]
            assert [each.name for each in made] == [candidate.name]
    compile(example(["a reason"]), "first.py", "exec")


@pytest.mark.parametrize("bench", ["bench", "perf/bench", "./bench/"])
def test_a_problem_is_found_from_any_folder_of_benchmarks(bench: str) -> None:
    """The path of its file counts from the root, however deep the benchmark lies."""
    (found,) = candidates([], [], ["level1/1_Square.py"], Definitions(), set(), {})
    (line,) = [line for line in found.text(0, "", bench=bench).splitlines() if "__file__" in line]
    (place,) = re.findall(r"Path\(__file__\).*\.py\"", line)
    path = eval(place, {"Path": Path, "__file__": str(Path("/repo", bench, "square.py"))})
    assert path == Path("/repo/level1/1_Square.py")


PACKAGE = {
    "pack/__init__.py": "from pack.ops import norm\n",
    "pack/ops.py": "import torch\nimport triton\n\ndef norm(x, w, eps): norm_kernel[(1,)](x, w, eps)\n"
    "class Norm(torch.nn.Module):\n    def __init__(self, config): ...\n    def forward(self, x): ...\n",
}
TEST = """
import pytest
import torch
from pack import norm
from pack.ops import Norm

EPS = 1e-6
SIZES = [(2, 64), (4, 4096)]
device = "cuda"


def scaled(rows, columns):
    \"\"\"Make rows.\"\"\"
    torch.manual_seed(0)
    return torch.randn(rows, columns, device=device)


@pytest.mark.parametrize(("rows", "columns"), [pytest.param(*size, id="x") for size in SIZES])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_norm(rows, columns, dtype):
    torch.manual_seed(0)
    unused = torch.ones(3)
    x = scaled(rows, columns).to(dtype).requires_grad_()
    w = torch.ones(columns, dtype=dtype).cuda()
    w.mul_(2)
    for eps in (EPS, 0.0):
        out = norm(x, w, eps)
    out.sum().backward()
    assert out.shape == x.shape


def test_module():
    m = Norm(dict(size=8))
    m.set_scale(3)
    assert m(torch.randn(2, 8)).isfinite().all()


def test_unknown(fixture):
    norm(torch.randn(fixture), None, 0)
"""


def written(folder: Path, files: dict[str, str], target: str) -> list[str]:
    """Return the texts of the benchmarks of a target."""
    (found,) = (each for each in surveyed(folder, files).candidates if each.target == target)
    return [found.text(number, "It ran.") for number in range(len(found.calls)) if found.origins[number]]


def test_a_test_s_call_becomes_a_benchmark(tmp_path: Path) -> None:
    """It has the statements that the call needs and no others, the test's largest sizes, and our device; it says its line."""
    text, smaller = written(tmp_path, {**PACKAGE, "tests/test_norm.py": TEST}, "pack.norm")
    assert text.startswith("# Written by `ratchet init` from tests/test_norm.py:27.\n# It ran.\n")
    body = text[text.index("def measured") :]
    assert (
        body
        == """def measured(device):
    def scaled(rows, columns):
        return torch.randn(rows, columns, device=device)

    EPS = 1e-06
    rows = 4
    columns = 4096
    dtype = torch.float16
    x = scaled(rows, columns).to(dtype)
    w = torch.ones(columns, dtype=dtype).to(device)
    w.mul_(2)
    eps = next(iter((EPS, 0.0)))
    return lambda: norm(x, w, eps)
"""
    )
    assert "manual_seed" not in text
    assert "columns = 64" in smaller


def test_a_module_is_evaluated_on_the_device(tmp_path: Path) -> None:
    """Where the test names no device, everything is made on ours, and the module is in evaluation mode."""
    (text,) = written(tmp_path, {**PACKAGE, "tests/test_norm.py": TEST}, "pack.ops.Norm")
    made = "m = Norm(dict(size=8))", "m.set_scale(3)", "input_1 = torch.randn(2, 8)", "m.eval()"
    block = "".join(f"        {line}\n" for line in made)
    assert f"    with device:  # tensors and modules are made there\n{block}    return lambda: m(input_1)\n" in text


def test_tensors_that_a_test_makes_within_a_call_are_made_before_it(tmp_path: Path) -> None:
    """They are no part of what is timed, and lie on the device; a name that is taken is not taken again, and numbers stay."""
    test = "import torch\nfrom pack import norm\n\ndef test_norm():\n    input_2 = 1e-6\n"
    test += "    assert norm(torch.randn(4, 8), w=2 * torch.ones(8), eps=max(input_2, 0)).shape == (4, 8)\n"
    (text,) = written(tmp_path, {**PACKAGE, "tests/test_norm.py": test}, "pack.norm")
    made = "input_2 = 1e-06", "input_1 = torch.randn(4, 8)", "input_3 = 2 * torch.ones(8)"
    block = "".join(f"        {line}\n" for line in made)
    assert f"{block}    return lambda: norm(input_1, w=input_3, eps=max(input_2, 0))\n" in text
    alone = test.replace("    input_2 = 1e-6\n", "").replace("input_2", "1e-6")
    (text,) = written(tmp_path, {**PACKAGE, "tests/test_norm.py": alone}, "pack.norm")
    assert text.endswith("input_2 = 2 * torch.ones(8)\n    return lambda: norm(input_1, w=input_2, eps=max(1e-06, 0))\n")


@pytest.mark.parametrize(
    ("test", "body", "call"),
    [
        ("Norm(6)(torch.ones(2, 6))", ["module = Norm(6)", "input_1 = torch.ones(2, 6)", "module.eval()"], "module(input_1)"),
        ("Norm(6).half()(made(6))", ["module = Norm(6).half()", "input_1 = made(6)", "module.eval()"], "module(input_1)"),
        ("norm(made(64), None, 0)", ["input_1 = made(64)"], "norm(input_1, None, 0)"),
        ("norm(*(torch.ones(8) for _ in '12'), 0)", ["input_1 = [torch.ones(8) for _ in '12']"], "norm(*input_1, 0)"),
        ("norm(rows, None, 0)", ["rows = torch.randn(4, 64)"], "norm(rows, None, 0)"),
        ("norm(yielded, None, 0)", ["yielded = torch.randn(3, 64)"], "norm(yielded, None, 0)"),
        ("norm(opened, None, 0)", [], None),
    ],
)  # fmt: skip
def test_how_a_test_may_write_its_inputs(test: str, body: list[str], call: str | None, tmp_path: Path) -> None:
    """Within the call, by a function of the file, or as a fixture that does nothing else."""
    text = f"""
import pytest
import torch
from pack.ops import Norm, norm

def made(n):
    return torch.randn(4, n)

@pytest.fixture(scope="module")
def rows():
    \"\"\"Rows.\"\"\"
    return torch.randn(4, 64)

@pytest.fixture
def yielded():
    yield torch.randn(3, 64)

@pytest.fixture
def opened(tmp_path):
    return torch.load(tmp_path / "x")

def test_it(rows, yielded, opened):
    {test}
"""
    files = {**PACKAGE, "tests/test_norm.py": text}
    found = [each for each in surveyed(tmp_path, files).candidates if any(each.origins)]
    seen = [(list(each.calls[0].body), each.calls[0].call) for each in found]
    assert seen == ([(body, call)] if call else [])


def test_blocks_of_the_readme_are_read(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Their calls come with the line of the README; what Python would warn of in somebody's files is not for here."""
    readme = "# Pack\n\n```python\nimport torch\nfrom pack import norm\nx = torch.randn(8, 8)\nnorm(x, x[0], 1e-6)\n'\\d'\n```\n"
    (text,) = written(tmp_path, {**PACKAGE, "README.md": readme, "pack/old.py": "import torch\n'\\d'\n"}, "pack.norm")
    assert not recwarn.list
    assert "from README.md:7." in text
    assert "return lambda: norm(x, x[0], 1e-06)" in text


OUTPUT = 'set_target_properties(k PROPERTIES RUNTIME_OUTPUT_DIRECTORY "$<BUILD_INTERFACE:${K_BINARY_DIR}/speed>")\n'
GOOGLE = "#include <benchmark/benchmark.h>\n"
CODE = {"tests/test_speed.py": "def test_k(benchmark):\n    benchmark(sum, [1])\n"}


@pytest.mark.parametrize(
    ("files", "tool", "command", "kind"),
    [
        (CODE, "pytest-benchmark", "python -m pytest tests --benchmark-only --benchmark-json={out}", "pytest-benchmark"),
        (
            CODE | {"tests/test_other.py": "def test_o(): ...\n"},
            "pytest-benchmark",
            "python -m pytest tests/test_speed.py --benchmark-only --benchmark-json={out}",
            "pytest-benchmark",
        ),
        (
            CODE | {"pyproject.toml": 'test = ["pytest-codspeed"]\n'},
            "pytest-codspeed",
            "env CODSPEED_PROFILE_FOLDER={dir} python -m pytest tests --codspeed --codspeed-mode walltime",
            "codspeed",
        ),
        ({"asv.conf.json": "{}"}, "asv", "python -m ratchet.harness.run_asv {dir}", "asv"),
        ({"b/asv.conf.json": "{}"}, "asv", "python -m ratchet.harness.run_asv {dir} --config b/asv.conf.json", "asv"),
        (
            {"CMakeLists.txt": "", "b/CMakeLists.txt": "add_executable(speed # x\n  k.cpp)\n", "b/k.cpp": GOOGLE},
            "Google Benchmark",
            "./build/b/speed --benchmark_out={out} --benchmark_out_format=json --benchmark_repetitions=5",
            "google-benchmark",
        ),
        (
            {"CMakeLists.txt": "add_executable(k bench/k.cu)\n", "bench/k.cu": "#include <nvbench/nvbench.cuh>\n"},
            "NVBench",
            "./build/k --jsonbin {out}",
            "nvbench",
        ),
        (
            {"cpp/CMakeLists.txt": "", "cpp/b/CMakeLists.txt": f"add_executable(k k.cpp)\n{OUTPUT}", "cpp/b/k.cpp": GOOGLE},
            "Google Benchmark",
            "./build/speed/k --benchmark_out={out} --benchmark_out_format=json --benchmark_repetitions=5",
            "google-benchmark",
        ),
        (
            {"tests/test_speed.py": "def test_k(ratchet_benchmark):\n    ratchet_benchmark(sum, [1])\n"},
            "ratchet_benchmark",
            "python -m pytest tests --ratchet-json={out}",
            "json",
        ),
        (
            {"b/soft.py": "@triton.testing.perf_report(x)\ndef bench(): ...\n"},
            "triton.testing.perf_report",
            "python -m ratchet.harness.run_perf_report b/soft.py {dir}",
            "triton",
        ),
    ],
)
def test_other_harnesses_are_offered_with_their_command(files: dict[str, str], tool: str, command: str, kind: str) -> None:
    """The command names what the repository has, and the format is the one that the tool writes.

    Where pytest's settings keep the first from timing anything, such as `addopts = -n 4`, it is tried without them.
    """
    (found,) = harnesses(files)
    assert (found.tool, found.command_line(), found.format) == (tool, command, kind)
    assert found.commands[1:] == (((*found.commands[0], "-o", "addopts="),) if " pytest " in command else ())
    if "cpp/CMakeLists.txt" in files:  # the outermost above the program
        assert found.build[-1].startswith("cmake -S cpp -B build ")


@pytest.mark.parametrize(
    "files",
    [
        {".bumpversion.cfg": "pytest-benchmark\n", "setup.cfg": "pytest_benchmark\n"},
        {"tests/test_k.py": "def test_k(benchmark):\n    assert benchmark\n"},
        {"CMakeLists.txt": "add_executable(k k.cpp)\n", "k.cpp": "int main() {}\n"},
    ],
)
def test_a_name_in_a_file_of_settings_is_no_harness(files: dict[str, str]) -> None:
    """Only benchmarks themselves count."""
    assert harnesses(files) == []


def test_no_two_benchmarks_are_one_file() -> None:
    """Of a module LayerNorm and a function layer_norm, whose benchmarks would have one file, the better one is written."""
    call = Slice((), (), (), "f()", names_device=False)
    ideas = [
        BenchmarkIdea(f"pkg.{module}.{name}", name, f"pkg.{module}", (call,), ("",), name)
        for module, name in (("modules", "LayerNorm"), ("ops", "layer_norm"), ("ops", "relu"))
    ]
    answers = [{"candidate": number, "outcome": "ran", "text": 0} for number in range(len(ideas))]
    assert [trial.candidate.name for trial in _learnt(ideas, answers, "").chosen] == ["LayerNorm", "relu"]


def test_a_compiled_module_of_the_repository_is_to_be_built_not_installed() -> None:
    """Where a build of the repository makes what an import misses, no package index is to blame."""
    answers = [{"imported": False, "missing": "fast_cuda", "error": "ModuleNotFoundError: No module named 'fast_cuda'"}]
    found = _learnt((), answers, 'CUDAExtension(name="fast_cuda", sources=[])')
    assert found == CallTrials(failure="it needs the compiled module fast_cuda, which building the repository makes")
    assert _learnt((), answers, "") == CallTrials(missing="fast_cuda")


@pytest.mark.parametrize("origin", [{"vcs_info": {"vcs": "git", "commit_id": "c" * 40}}, {"dir_info": {}}, None])
def test_workflows_call_the_commit_that_was_installed(origin: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed from a commit, no other needs to be named, so that templates and commit cannot differ; else one has to be."""
    installed = types.SimpleNamespace(read_text=lambda _: None if origin is None else json.dumps(origin))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: installed)
    if origin and "vcs_info" in origin:
        assert workflow_values("octo/ratchet", "gpu", "python3", "main").commit == "c" * 40
    else:
        with pytest.raises(UsageError, match="OWNER/ratchet@COMMIT"):
            workflow_values("octo/ratchet", "gpu", "python3", "main")


def test_workflows_of_another_commit_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init --check` names the command that compares with the templates of the pinned commit."""
    new_repository(tmp_path / "repo", {"a.py": "x = 1\n"})
    values = workflow_values(f"octo/ratchet@{'a' * 40}", "gpu", "python3", "main")
    for name, text in TEMPLATES.items():
        (tmp_path / "repo" / WORKFLOW_FOLDER).mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / WORKFLOW_FOLDER / name).write_text(values.fill(text), encoding="utf-8")
    request = InitRequest(tmp_path / "repo")
    assert drift(request) == []
    monkeypatch.setattr(init, "installed_commit", lambda: "a" * 40)
    assert drift(request) == []
    monkeypatch.setattr(init, "installed_commit", lambda: "c" * 40)
    with pytest.raises(UsageError, match="call aaaaaaaaaa, and these templates are those of cccccccccc"):
        drift(request)
