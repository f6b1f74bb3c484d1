"""The code that is timed comes from each tree, whatever is installed in the environment."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, HARNESS, Playground, commit, new_repository

KERNELS = """\
import time

REPEAT = 40


def chain(x):
    out = x + 1
    for _ in range(REPEAT):
        out = out + 1
    time.sleep(REPEAT * 5e-5)
    return out
"""
SLOW_KERNELS = KERNELS.replace(
    "    out = x + 1\n", "    for _ in range(4):\n        time.sleep(REPEAT * 5e-5)\n    out = x + 1\n"
)
SEEN = ({"adds/small": Outcome.SLOWER}, {"adds/small": Outcome.INCONCLUSIVE})
"""Outcomes of a slowdown that was measured, on a restless machine too; the same code twice gives neither."""
USES = ADDS.split("    def run():")[0].replace("import torch\n", "import torch\nfrom mykernels import chain\n") + (
    "    return Workload(\n"
    "        run=lambda: chain(x), reference=lambda: x.double() + 1 + REPEAT, dtype='float32', flops=size, bytes=8 * size,\n"
    "        tolerance={'float32': 1e-3},\n"
    "    )\n"
)
LAZY = USES.replace("from mykernels import chain\n", "\n\ndef chain(x):\n    from mykernels import chain\n    return chain(x)\n")
PROJECT = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n[project]\n' + (
    'name = "mykernels"\nversion = "1"\n[tool.setuptools]\npackages = ["mykernels"]\n'
)
SRC_LAYOUT = 'package-dir = {"" = "src"}\n'


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that sees all that the tests' own has. Copy it with `fresh_environment`."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    shown = [place for place in (sysconfig.get_path("purelib"), *site.getsitepackages()) if Path(place).is_dir()]
    lines = [f"import site; site.addsitedir({place!r})" for place in dict.fromkeys(shown)]
    _packages(folder).joinpath("the_tests_own.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _packages(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages"))


def _place(tmp_path: Path, environment: Path, files: dict[str, str], settings: str) -> Playground:
    new_repository(tmp_path / "repo", files, f"{settings}\n")
    venv = tmp_path / "venv"
    shutil.copytree(environment, venv, symlinks=True)
    return Playground(tmp_path, venv / "bin" / "python")


def _install_editable(play: Playground) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(play.python), "--disable-pip-version-check"]
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(play.repo)]
    done = subprocess.run([*pip, *words], env=play.environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _imported_from(play: Playground) -> Path:
    found = subprocess.run(
        [str(play.python), "-c", "import mykernels; print(mykernels.__file__)"],
        cwd=play.temp,
        env=play.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip())


@pytest.mark.slow
@pytest.mark.parametrize("source", ["mykernels", "src/mykernels"])
def test_editable_install_cannot_time_the_checkout_against_itself(tmp_path: Path, environment: Path, source: str) -> None:
    """With the package installed editable, a slower head is still seen: each side imports its own tree's copy."""
    project = PROJECT + (SRC_LAYOUT if source.startswith("src/") else "")
    files = {"bench/adds.py": USES, f"{source}/__init__.py": KERNELS}
    play = _place(tmp_path, environment, files, project)
    _install_editable(play)
    assert _imported_from(play) == play.repo / source / "__init__.py"
    play.commit({f"{source}/__init__.py": SLOW_KERNELS})
    done = play.check()
    assert done.outcomes() in SEEN, done
    comparison = done.verdict("adds/small").comparison
    assert comparison.ratio > 1.5, done


@pytest.mark.slow
@pytest.mark.parametrize("bench", [USES, LAZY], ids=["at import", "lazily"])
def test_editable_install_that_wins_is_refused(tmp_path: Path, environment: Path, bench: str) -> None:
    """Where a tree lacks the package, so that the editable install would stand in, the check refuses and names the module."""
    play = _place(tmp_path, environment, {"bench/adds.py": bench}, PROJECT)
    play.commit({"mykernels/__init__.py": KERNELS})
    _install_editable(play)
    done = play.check()
    assert done.code == 3, done
    assert f"The reference loaded mykernels ({play.repo}/mykernels/__init__.py) instead of its own copy" in done.sentence
    assert not play.repo.joinpath("results/report.json").exists()
    play.assert_clean()


@pytest.mark.slow
def test_editable_install_from_a_folder_that_is_not_on_the_path_is_refused(tmp_path: Path, environment: Path) -> None:
    """A package in a folder that python_path does not name comes from the checkout on both sides: refused until it does."""
    project = PROJECT + 'package-dir = {"" = "python"}\n'
    files = {"bench/adds.py": USES, "python/mykernels/__init__.py": KERNELS}
    play = _place(tmp_path, environment, files, project)
    _install_editable(play)
    play.commit({"python/mykernels/__init__.py": SLOW_KERNELS})
    done = play.check()
    assert done.code == 3, done
    assert "add the folder of your copy to python_path" in done.sentence
    assert play.check(env={"RATCHET_PYTHON_PATH": "python"}).outcomes() in SEEN


@pytest.mark.slow
@pytest.mark.parametrize("bench", [USES, LAZY], ids=["at import", "lazily"])
def test_copy_in_site_packages_loses_to_the_tree_or_is_refused(tmp_path: Path, environment: Path, bench: str) -> None:
    """A plain installed copy of the package is never what is timed: the tree's own wins, or the check refuses."""
    play = _place(tmp_path, environment, {"bench/adds.py": bench}, "")
    installed = _packages(play.python.parents[1]) / "mykernels"
    installed.mkdir()
    installed.joinpath("__init__.py").write_text(KERNELS, encoding="utf-8")
    play.commit({"mykernels/__init__.py": KERNELS})
    refused = play.check()
    assert refused.code == 3, refused
    assert f"The reference loaded mykernels ({installed}/__init__.py) instead of its own copy" in refused.sentence
    commit(play.repo, "slower", {"mykernels/__init__.py": SLOW_KERNELS})
    assert play.check().outcomes() in SEEN


@pytest.mark.slow
def test_harness_never_comes_from_the_tree(tmp_path: Path) -> None:
    """A relative PYTHONPATH that would find another `ratchet` in the tree changes nothing: the installed one measures."""
    files = {"bench/adds.py": ADDS, "tools/ratchet/__init__.py": "raise SystemExit('not the harness')\n"}
    new_repository(tmp_path / "repo", files)
    play = Playground(tmp_path)
    words = ("list", "--repo", str(play.repo), "--device", "cpu")
    done = play.ratchet(*words, env={"PYTHONPATH": f"tools:{HARNESS}"}, cwd=play.temp)
    assert done.code == 0, done
    assert done.out.startswith("adds/small")
