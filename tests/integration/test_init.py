"""`ratchet init` in repositories of real shapes: each ends with a check that passes on the CPU."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.adopt.candidates import BenchmarkIdea
from ratchet.adopt.harnesses import FoundHarness, TriedHarness, try_harness
from ratchet.adopt.slices import Slice
from ratchet.adopt.trial import CallTrials, try_candidates
from ratchet.core.git import Repository
from ratchet.core.records.verdict import Outcome
from tests.integration.playground import Playground, git, only_json

COMMIT = "d" * 40
SCALE = "import torch\n\n\ndef scale(x: torch.Tensor) -> torch.Tensor:\n    return x * 3\n"
SOFTMAX = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    pass


def softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
    return y
"""
CMAKE = "cmake_minimum_required(VERSION 3.30)\nproject(kernels LANGUAGES CUDA)\nfind_package(nvbench REQUIRED)\nadd_executable(speed bench/k.cu)\n"  # noqa: E501
NVBENCH = "#include <nvbench/nvbench.cuh>\nvoid k(nvbench::state& state) {}\nNVBENCH_BENCH(k);\n"
PROJECT = '[project]\nname = "a-package"\nversion = "1"\n'
SHAPES = {
    "monorepo": {
        "libs/a/pyproject.toml": PROJECT,
        "libs/a/src/pack_a/__init__.py": "",
        "libs/a/src/pack_a/ops.py": SCALE,
        "libs/b/pyproject.toml": PROJECT,
        "libs/b/pack_b/__init__.py": "",
    },
    "cuda": {"CMakeLists.txt": CMAKE, "src/k.cu": "__global__ void k() {}\n", "bench/k.cu": NVBENCH, "results/notes.csv": "1\n"},
    "triton": {"pyproject.toml": PROJECT, "kernels/__init__.py": "", "kernels/softmax.py": SOFTMAX},
    "pytest": {
        "pyproject.toml": PROJECT + '[project.optional-dependencies]\ntest = ["pytest-benchmark"]\n',
        "src/package/__init__.py": "from package.ops import scale\n",
        "src/package/ops.py": SCALE,
        "tests/test_ops.py": "def test_scale(benchmark):\n    benchmark(sum, [1, 2])\n",
    },
    "empty": {"README.md": "nothing yet\n"},
    "workflows": {
        ".github/workflows/ci.yml": "name: CI\non: push\n",
        ".github/workflows/ratchet_report.yml": "name: mine\n",
        "setup.py": "from setuptools import setup\n\nsetup()\n",
    },
}
"""Name → the files of a repository."""
BRIEF = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p pytest_benchmark.plugin --benchmark-max-time=0.05",
}
"""Where pytest-benchmark is installed: it is all that pytest loads, and times each benchmark for no second."""
TIMED = {"monorepo": ["pack_a.ops.scale(x)"], "pytest": ["package.ops.scale(x)"]}
"""Where a function of the repository runs, a benchmark calls it."""


def calls_of(plan: Any) -> list[str]:
    """Return the calls of the benchmarks that `ratchet init` wrote."""
    return [each["calls"] for each in plan["benchmarks"]]


@pytest.fixture
def shaped(tmp_path: Path) -> Callable[[str], Playground]:
    """Makes the repository of a shape, with one commit."""

    def build(shape: str) -> Playground:
        repo = tmp_path / "repo"
        for name, text in SHAPES[shape].items():
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_text(text, encoding="utf-8")
        git(tmp_path, "init", "--quiet", "--initial-branch=trunk", "repo")
        git(repo, "config", "user.name", "A Test")
        git(repo, "config", "user.email", "test@localhost")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "-m", "first")
        return Playground(tmp_path)

    return build


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_check_passes_after_init(shape: str, shaped: Callable[[str], Playground]) -> None:
    """It asks nothing, keeps every file's content, does nothing the second time, and what it wrote is measured."""
    play = shaped(shape)
    before = {name: (play.repo / name).read_text() for name in SHAPES[shape]}
    plan = only_json(play.ratchet("init", "--yes", "--json", "--github", f"octo/ratchet@{COMMIT}", env=BRIEF).out)
    has_cases = any(each["cases"] for each in plan["harnesses"])  # where pytest-benchmark is installed
    assert calls_of(plan) == ([] if has_cases else TIMED.get(shape, []))
    after = {name: (play.repo / name).read_text() for name in before}
    assert all(after[name].startswith(before[name]) for name in before)
    assert {name for name in before if before[name] != after[name]} <= {"pyproject.toml"}
    assert plan["kept"] == ([".github/workflows/ratchet_report.yml"] if shape == "workflows" else [])
    assert only_json(play.ratchet("init", "--yes", "--json", "--github", f"octo/ratchet@{COMMIT}").out)["written"] == []
    settings = tomllib.loads((play.repo / "pyproject.toml").read_text())["tool"]["ratchet"]
    assert (settings.get("bench", "bench"), settings.get("results", "results")) == (
        ("ratchet_bench", "ratchet_results") if shape == "cuda" else ("bench", "results")
    )
    for path in (play.repo / settings.get("bench", "bench")).glob("*.py"):  # sizes that nobody has to wait for
        path.write_text(path.read_text().replace("4096, 1024", "64, 16"))
    play.git("add", "--all")
    play.git("commit", "--quiet", "-m", "benchmarks")
    done = play.check("--pairs", "3", env=BRIEF)
    assert done.code == 0, done
    assert ("tests.test_ops.test_scale" if has_cases else "NEW") in done.out  # a harness's benchmarks were there before
    assert any("--benchmark-json={out}" in step for step in plan["to_do"]) == (shape == "pytest" and not has_cases)
    assert any("--jsonbin {out}" in step for step in plan["to_do"]) == (shape == "cuda")
    if shape in ("monorepo", "cuda"):  # benchmarks that import the repository's code, and folders with other names
        play.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
        done = play.check()
        assert done.code == 0, done
        assert "IDENTICAL" in done.out


def test_settings_keep_no_output_of_a_harness_that_fails(shaped: Callable[[str], Playground]) -> None:
    """A person reads what it printed; the settings, which are committed, name the command and its status only."""
    play = shaped("empty")
    play.commit({"tests/test_speed.py": "def test_speed(ratchet_benchmark):\n    raise ValueError(__file__)\n"})
    done = play.ratchet("init", "--yes")
    assert "It printed: " in done.out, done
    written = (play.repo / "pyproject.toml").read_text()
    assert "ratchet_benchmark, in place of bench/ (The command `python -m pytest tests" in written
    assert "printed" not in written


def test_a_harness_is_tried_as_a_check_runs_it(shaped: Callable[[str], Playground]) -> None:
    """It runs in the project's folder, with uncommitted files, whatever the number of cases; before a first commit it cannot."""
    play = shaped("monorepo")
    written = '{"unit": "s", "benchmarks": {f"speed.k/{number}": [1e-3] * 5 for number in range(400)}}'
    script = f"import json, sys\nimport own\njson.dump({written}, open(sys.argv[1], 'w'))\n"
    for name, text in {"speed.py": script, "more/own.py": "\n"}.items():
        (play.repo / "libs/a" / name).parent.mkdir(exist_ok=True)
        (play.repo / "libs/a" / name).write_text(text)
    harness = FoundHarness("speed", ((sys.executable, "speed.py", "{out}"),), "json")
    where = Repository(play.repo), Path("libs/a"), ("more",), os.environ
    assert try_harness(harness, *where) == TriedHarness(harness, cases=400)
    play.git("checkout", "--quiet", "--orphan", "new")
    assert try_harness(harness, *where) == TriedHarness(harness, problem="there is no commit yet")


def test_workflows_are_filled_in(shaped: Callable[[str], Playground]) -> None:
    """They name the commit, the labels, the Python and the branch that is checked out, and `--check` finds what drifted."""
    play = shaped("empty")
    play.git("remote", "add", "origin", "git@github.com:octo-org/kernels.git")
    words = ("--github", f"octo/ratchet@{COMMIT}", "--runner", '["self-hosted", "a100"]', "--python", "/opt/torch/bin/python")
    done = play.ratchet("init", "--yes", *words)
    assert done.code == 0, done
    assert "https://github.com/octo-org/kernels/settings/actions" in done.out
    text = (play.repo / ".github/workflows/ratchet_baseline.yml").read_text()
    assert f"@{COMMIT}\n" in text
    assert 'branches: ["trunk"]' in text
    assert """runner: '["self-hosted", "a100"]'\n      python: /opt/torch/bin/python\n""" in text
    assert play.ratchet("init", "--check").code == 0
    (play.repo / ".github/workflows/cuda_profile.yml").unlink()
    (play.repo / ".github/workflows/ratchet_baseline.yml").write_text(text.replace("contents: write", "contents: read"))
    drifted = play.ratchet("init", "--check")
    assert drifted.code == 2
    assert "+      contents: write" in drifted.out
    assert "+++ b/.github/workflows/cuda_profile.yml" in drifted.out
    assert "a100" in drifted.out
    newer = play.ratchet("init", "--check", "--github", f"octo/ratchet@{'e' * 40}")
    assert f"+    uses: octo/ratchet/.github/workflows/ratchet_report.yml@{'e' * 40}" in newer.out
    assert not [line for line in newer.out.splitlines() if line.startswith(("-      python:", "-      runner:"))], newer.out
    other = play.ratchet("init", "--check", "--github", f"octo/ratchet@{'e' * 40}", "--python", "python3.12")
    assert "+      python: python3.12" in other.out


def test_workflows_have_the_usual_labels_where_none_are_given(shaped: Callable[[str], Playground]) -> None:
    """They are named to the person, too, and stand in for what no workflow that is left says."""
    play = shaped("empty")
    done = play.ratchet("init", "--yes", "--github", f"octo/ratchet@{COMMIT}")
    assert 'register the GPU machine with the labels ["self-hosted", "gpu"].' in done.out, done
    for path in (play.repo / ".github/workflows").glob("*.yml"):
        if "runner: " in path.read_text():
            path.unlink()
    newer = play.ratchet("init", "--check", "--github", f"octo/ratchet@{'e' * 40}")
    assert """+      runner: '["self-hosted", "gpu"]'\n+      python: python3\n""" in newer.out, newer


@pytest.mark.slow
def test_a_dry_run_writes_nothing(shaped: Callable[[str], Playground]) -> None:
    """It prints a diff that git can apply."""
    play = shaped("pytest")
    done = play.ratchet("init", "--dry-run", env=BRIEF)
    assert play.git("status", "--porcelain") == ""
    patch = play.folder / "init.patch"
    patch.write_text(done.out[done.out.index("--- ") :])
    play.git("apply", str(patch))
    assert only_json(play.ratchet("init", "--yes", "--json").out)["written"] == []


@pytest.mark.slow
def test_workflows_belong_to_the_root(shaped: Callable[[str], Playground]) -> None:
    """In a project of a monorepo `--github` says where to run instead; without it, the project gets its own settings."""
    play = shaped("monorepo")
    done = play.ratchet("init", "--yes", "--repo", "libs/a", "--github", f"octo/ratchet@{COMMIT}")
    assert done.code == 2
    assert "is not the root of the repository" in done.sentence
    assert play.finish(play.start("init", "--yes", "--repo", "libs/a")).code == 0  # no fork: it tries calls in a child of its own
    assert "from pack_a.ops import scale as timed" in (play.repo / "libs/a/bench/scale.py").read_text()
    assert "[tool.ratchet]" in (play.repo / "libs/a/pyproject.toml").read_text()


@pytest.mark.slow
def test_a_function_by_the_name_of_its_module(shaped: Callable[[str], Playground]) -> None:
    """The package has the function where the module of that name would be looked for; it may return several tensors."""
    play = shaped("empty")
    text = "import torch\n\n\ndef norm(x):\n    return x * 3, x.sum()\n"
    play.commit({"kernels/__init__.py": "from .norm import norm\n", "kernels/norm.py": text})
    plan = only_json(play.ratchet("init", "--yes", "--json").out)
    assert calls_of(plan) == ["kernels.norm.norm(x)"]
    bench = play.repo / "bench/norm.py"
    bench.write_text(bench.read_text().replace("4096, 1024", "64, 16"))
    play.commit({"README.md": "measured\n"})
    done = play.check()
    assert (done.code, done.outcomes()) == (0, {"norm/default": Outcome.NEW}), done


@pytest.mark.slow
def test_a_module_of_torch(shaped: Callable[[str], Playground]) -> None:
    """It is made with sizes that suit each other, in evaluation mode, since dropout never gives the same result twice."""
    play = shaped("empty")
    text = """
import torch
from torch import nn

class GatedNorm(nn.Module):
    def __init__(self, dim, p=0.5):
        super().__init__()
        self.gate, self.dropout = nn.Linear(dim, dim), nn.Dropout(p)

    def forward(self, x):
        return self.dropout(x * self.gate(x))
"""
    play.commit({"kernels/__init__.py": "# a package\n", "kernels/norm.py": text})
    plan = only_json(play.ratchet("init", "--yes", "--json").out)
    assert calls_of(plan) == ["kernels.norm.GatedNorm(dim=512)(x)"]
    bench = play.repo / "bench/gated_norm.py"
    bench.write_text(bench.read_text().replace("8, 512, 512", "16, 512"))
    play.commit({"README.md": "measured\n"})
    done = play.check()
    assert (done.code, done.outcomes()) == (0, {"GatedNorm/default": Outcome.NEW}), done


@pytest.mark.slow
def test_a_package_that_is_not_installed_is_named(shaped: Callable[[str], Playground]) -> None:
    """The first step is to install what the repository imports, and the example says that it is missing."""
    play = shaped("empty")
    text = "import torch\nimport surely_not_installed.ops\n\n\ndef norm(x):\n    return x * 3\n"
    play.commit({"kernels/__init__.py": "# a package\n", "kernels/norm.py": text})
    plan = only_json(play.ratchet("init", "--yes", "--json").out)
    assert calls_of(plan) == []
    assert plan["to_do"][0] == (
        "Install surely_not_installed, which your code imports; delete bench/first.py and run `ratchet init` again."
    )
    assert "there is no surely_not_installed" in (play.repo / "bench/first.py").read_text()


@pytest.mark.slow
def test_the_second_init_finds_what_the_first_did(shaped: Callable[[str], Playground]) -> None:
    """Its settings name the folders of what could not run yet; where a person's do not, no package of their own is to install."""
    play = shaped("monorepo")
    package = play.repo / "libs/a/src/pack_a/ops.py"
    package.write_text(f"import surely_not_installed\n{SCALE}")
    assert calls_of(only_json(play.ratchet("init", "--yes", "--json").out)) == []
    package.write_text(SCALE)
    (play.repo / "bench/first.py").unlink()
    assert calls_of(only_json(play.ratchet("init", "--yes", "--json").out)) == ["pack_a.ops.scale(x)"]
    (play.repo / "bench/scale.py").unlink()
    (play.repo / "pyproject.toml").write_text("[tool.ratchet]\n")
    step = "Add libs/a/src to python_path in [tool.ratchet], where pack_a is; delete bench/first.py and run `ratchet init` again."
    assert only_json(play.ratchet("init", "--yes", "--json").out)["to_do"][0] == step


@pytest.mark.slow
def test_why_nothing_can_be_imported_is_said(shaped: Callable[[str], Playground]) -> None:
    """Where a package's own import fails, the first step names the error, and so does the example."""
    play = shaped("empty")
    text = "import torch\n\n\ndef norm(x):\n    return x * 3\n"
    play.commit({"kernels/__init__.py": "from math import no_such_name\n", "kernels/norm.py": text})
    plan = only_json(play.ratchet("init", "--yes", "--json").out)
    assert calls_of(plan) == []
    error = "ImportError: cannot import name 'no_such_name' from 'math'"
    assert plan["to_do"][0].startswith(f"Your code cannot be imported here ({error}"), plan["to_do"]
    assert f"it cannot be imported: {error}" in (play.repo / "bench/first.py").read_text()


HARMLESS = "import time\nimport torch\n\n\ndef {name}(x: torch.Tensor) -> torch.Tensor:\n    {body}\n    return x * 3\n"


@pytest.mark.slow
def test_functions_that_do_not_suit_are_passed_over(shaped: Callable[[str], Playground]) -> None:
    """One that changes its input, is slow, exits, kills its process, or gives its input, a view or no tensor is not written."""
    play = shaped("empty")
    bodies = {"a_in_place": "x += 1", "b_slow": "time.sleep(1.1)", "c_exits": "raise SystemExit(0)"}
    bodies |= {"c_dies": "__import__('os')._exit(0)", "d_list": "return [x]", "d_view": "return x.T", "d_number": "return 3"}
    bodies |= {"d_random": "return torch.rand_like(x)"}
    play.commit({f"kernels/{name}.py": HARMLESS.format(name=name, body=body) for name, body in bodies.items()})
    play.commit({"kernels/__init__.py": "# a package\n", "kernels/e_good.py": HARMLESS.format(name="e_good", body="pass")})
    plan = only_json(play.ratchet("init", "--yes", "--json").out)
    assert calls_of(plan) == ["kernels.e_good.e_good(x)"]


def test_where_it_cannot_begin(tmp_path: Path, shaped: Callable[[str], Playground]) -> None:
    """Outside git, with a file in a folder's place, and without a workflow to fill in or check, a sentence says what to do."""
    play = shaped("empty")
    outside = play.ratchet("init", "--yes", "--repo", str(play.temp))
    assert (outside.code, "is not inside a git repository" in outside.sentence) == (2, True)
    assert "has no workflow of ratchet" in play.ratchet("init", "--check").sentence
    for option in ("--runner", "--python"):
        useless = play.ratchet("init", "--yes", option, "a100")
        assert (useless.code, "without --github none are written" in useless.sentence) == (2, True)
    (play.repo / "pyproject.toml").write_text("[project\n")
    broken = play.ratchet("init", "--yes")
    assert (broken.code, "not valid TOML" in broken.sentence) == (2, True)
    (play.repo / "pyproject.toml").unlink()
    (play.repo / "bench").write_text("a file\n")
    assert "ratchet_bench/first.py" in play.ratchet("init", "--yes").out


def test_steps_are_those_of_the_project_s_folder(shaped: Callable[[str], Playground]) -> None:
    """Where a person stands elsewhere, they say in which folder their paths begin."""
    play = shaped("empty")
    inside = play.repo / "src"
    inside.mkdir()
    assert f"\nNext steps, in {play.repo}:\n" in play.ratchet("init", "--yes", cwd=inside).out
    assert "\nNext steps:\n" in play.ratchet("init", "--yes").out


def test_a_package_of_numpy_s_arrays_is_told_that_none_of_it_is_timed(shaped: Callable[[str], Playground]) -> None:
    """Where no function takes tensors, the output says that the example times torch."""
    play = shaped("empty")
    text = "import numpy as np\n\n\ndef norm(x: np.ndarray) -> np.ndarray:\n    return x * 3\n"
    play.commit({"kernels/__init__.py": "# a package\n", "kernels/norm.py": text})
    done = play.ratchet("init", "--yes")
    assert done.code == 0
    assert "No function of yours was found that could be called, so the benchmark times torch, not your code." in done.out
    assert "times torch" not in play.ratchet("init", "--yes").out


def test_why_torch_cannot_be_imported_is_said(tmp_path: Path) -> None:
    """Where torch itself is broken, its error is the reason, and no function is blamed for not having run."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_python.so: cannot open shared object file')\n")
    call = Slice((), (), ("x = torch.ones(8)",), "x + 1", names_device=False)
    idea = BenchmarkIdea("kernels.norm", "norm", "kernels", (call,), ("tests/test_norm.py:3",), "kernels.norm(x)")
    path = os.pathsep.join((str(tmp_path), *sys.path))
    trials = try_candidates([idea], tmp_path, ["."], "", {**os.environ, "PYTHONPATH": path})
    assert trials == CallTrials(failure="ImportError: libtorch_python.so: cannot open shared object file")
