"""The build command: once per tree, kept by content, and what its failure means."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, PROOF, QUICK, SETTINGS, Playground, wait_until
from tests.integration.zoo import SECRETS

BUILT = ADDS.replace("REPEAT = 40", "from pathlib import Path\nREPEAT = int(Path('out/repeat.txt').read_text())")
SCRIPT = """\
import os, sys
from pathlib import Path

with open({count!r}, "a") as count:
    count.write(os.getcwd() + "\\n")
if any("t0ken-of-ci" in value for value in os.environ.values()):
    sys.exit("the build sees a secret")
Path("out").mkdir(exist_ok=True)
Path("out/repeat.txt").write_text(Path("repeat.txt").read_text())
"""
FAILS = "import sys\nsys.exit('\\x1b[31mno such compiler')\n"
REJECTED = """\
import os, sys

print(os.getcwd() + '/x.cu(4): error: identifier "y" is undefined\\n    out[i] = y;\\n             ^\\n\\n1 error detected.')
sys.exit("make: *** [Makefile:2: all] Error 2")
"""
TRITON = """\
class CompilationError(Exception):
    pass


def kernel(x):
    return x + LIMIT


def compiled():
    source = "def kernel(x):\\n    return x + LIMIT"
    raise CompilationError(f"at 2:15:\\n{source}\\n{' ' * 15}^\\nNameError('LIMIT is not defined')")
"""
"""An error that counts lines as Triton's do: from the first line of the kernel."""


def _build(make: Callable[..., Playground], tmp_path: Path, *more: dict[str, str]) -> tuple[Playground, Path]:
    count = tmp_path / "count.txt"
    count.touch()
    files = {"bench/adds.py": BUILT, "make.py": SCRIPT.format(count=str(count)), "repeat.txt": "40"}
    return make(files, *more, settings=f'build = ["{sys.executable}", "make.py"]\nbuild_outputs = ["out/"]\n'), count


@pytest.mark.slow
def test_build_runs_once_per_tree_and_is_kept(make: Callable[..., Playground], tmp_path: Path) -> None:
    """Each tree is built once, sees no secret, and is not built again for the same content unless told so."""
    play, count = _build(make, tmp_path, {"repeat.txt": "41"})
    done = play.check(env=SECRETS)
    assert done.code == 0, done
    built = count.read_text(encoding="utf-8").split()
    assert sorted(Path(folder).name for folder in built) == ["base", "head"]
    assert set(done.outcomes()) == {"adds/small"}
    assert play.check().code == 0
    assert count.read_text(encoding="utf-8").split() == built
    assert play.check("--no-build-cache").code == 0
    assert len(count.read_text(encoding="utf-8").split()) == 4
    assert not play.repo.joinpath("out").exists()
    play.assert_clean()


def test_head_that_does_not_build_is_red(make: Callable[..., Playground], tmp_path: Path) -> None:
    """A failing build of the head exits 1 with a FAILED report that quotes the build, and builds nothing else."""
    play, count = _build(make, tmp_path, {"make.py": FAILS})
    done = play.check()
    assert done.code == 1, done
    assert done.outcomes() == {"build/*": Outcome.FAILED}
    assert "no such compiler" in done.verdict("build/*").reason
    assert "\x1b" not in done.out + done.markdown
    assert count.read_text(encoding="utf-8") == ""
    play.assert_clean()


def test_the_line_that_matters_of_a_failed_build(make: Callable[..., Playground], tmp_path: Path) -> None:
    """A build that a compiler stopped is quoted by the compiler's first error, not by the last lines of make."""
    play, _ = _build(make, tmp_path, {"make.py": REJECTED})
    done = play.check()
    assert done.code == 1, done
    assert done.report.headline.endswith('failed with status 1: x.cu(4): error: identifier "y" is undefined.')


def test_the_line_that_matters_of_a_kernel(make: Callable[..., Playground]) -> None:
    """An error of a kernel's compiler is in the headline with its place in the tree, the source line and the reason."""
    broken = "from kernels import compiled\n" + ADDS.replace("    x = torch", "    compiled()\n    x = torch")
    play = make({"bench/adds.py": ADDS, "kernels.py": "\n"}, {"bench/adds.py": broken, "kernels.py": TRITON})
    done = play.check()
    assert done.code == 1, done
    place = "Prepare: CompilationError at kernels.py:6:16, “return x + LIMIT”: NameError('LIMIT is not defined')."
    assert done.report.headline == f"1 of 1 case failed: adds/small. {place}"
    play.commit({"bench/adds.py": ADDS + "\nimport kernels.missing\n"})
    done = play.check("--base", "HEAD~2")
    assert done.verdict("adds/small").reason.endswith("'kernels' is not a package (bench/adds.py:25)."), done


@pytest.mark.slow
def test_reference_that_does_not_build_falls_back_to_the_baseline(make: Callable[..., Playground], tmp_path: Path) -> None:
    """A reference that cannot be built is no red: stored times stand in, the report says so, and nothing is proved."""
    play, _ = _build(make, tmp_path)
    play.repo.joinpath("out").mkdir()
    play.repo.joinpath("out/repeat.txt").write_text("40", encoding="utf-8")
    play.commit({".gitignore": "results/*\nout/\n__pycache__/\n"})
    assert play.ratchet("run", *QUICK).code == 0
    assert play.ratchet("baseline", "record").code == 0
    script = play.repo.joinpath("make.py").read_text(encoding="utf-8")
    play.commit({"make.py": FAILS})
    play.commit({"make.py": script})
    done = play.check()
    assert done.code == 0, done
    verdict = done.verdict("adds/small")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.comparison is not None
    assert verdict.comparison.source == "stored"
    assert "compared with the time stored on" in verdict.reason
    assert done.run.reference_missing is not None
    assert "no such compiler" in done.run.reference_missing
    assert "stored baseline stands in" in done.markdown


def test_build_that_hangs_is_ended_with_its_children(make: Callable[..., Playground], tmp_path: Path) -> None:
    """A build past its time limit is killed with every process it started, and the head is red."""
    pid = tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    play, _ = _build(make, tmp_path, {"make.py": script})
    done = play.check(env={"RATCHET_BUILD_TIMEOUT": "1s"})
    assert done.code == 1, done
    assert "took more than 1 s" in done.verdict("build/*").reason
    wait_until(lambda: _is_gone(int(pid.read_text(encoding="utf-8"))), "the build's child is left")
    play.assert_clean()


def test_build_command_that_does_not_exist_is_red(make: Callable[..., Playground]) -> None:
    """A build command that cannot be started fails the head and is named."""
    play = make({"bench/adds.py": ADDS}, {"notes.txt": "x\n"}, settings='build = "no-such-program --fast"\n')
    done = play.check()
    assert done.code == 1
    assert "no-such-program --fast" in done.verdict("build/*").reason


def _is_gone(pid: int) -> bool:
    """Not there any more, or a zombie that only waits for its new parent."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    time.sleep(0.01)
    return state == "Z"


OPTION = """\
import sys
from pathlib import Path

Path("out").mkdir(exist_ok=True)
Path("out/repeat.txt").write_text(sys.argv[1])
"""


@pytest.mark.slow
def test_each_side_is_built_with_its_own_command(make: Callable[..., Playground]) -> None:
    """A change of the build command shows its effect, and is named; so from a tree with uncommitted changes."""
    play = make({"bench/adds.py": BUILT, "make.py": OPTION}, settings=_built_with(40))
    play.commit({"pyproject.toml": f"{SETTINGS}{_built_with(200)}"})
    done = play.check(*PROOF)
    assert done.outcomes() == {"adds/small": Outcome.REGRESSED}
    said = f"The setting build differs: {sys.executable} make.py 200 in the head, {sys.executable} make.py 40 in the reference."
    assert any(warning.startswith(f"{said} Each side") for warning in done.run.warnings), done.run.warnings
    play.repo.joinpath("pyproject.toml").write_text(f"{SETTINGS}{_built_with(40)}", encoding="utf-8")
    done = play.check(*PROOF)
    assert done.outcomes() == {"adds/small": Outcome.IMPROVED}
    assert sum("The setting build differs" in warning for warning in done.run.warnings) == 1


def _built_with(repeat: int) -> str:
    return f'build = ["{sys.executable}", "make.py", "{repeat}"]\n'


@pytest.mark.slow
def test_each_side_is_imported_from_its_own_folders(make: Callable[..., Playground]) -> None:
    """A commit that moves the package and says so in python_path is compared with the one before; other settings are named."""
    bench = ADDS.replace("REPEAT = 40", "from acme import REPEAT")
    play = make({"bench/adds.py": bench, "lib/acme.py": "REPEAT = 40\n"}, settings='python_path = ["lib"]\n')
    play.git("mv", "lib", "python")
    play.commit({"pyproject.toml": f'{SETTINGS}python_path = ["python"]\ncpu_threads = 2\npairs = 50\n'})
    done = play.check(*PROOF)
    assert done.outcomes() == {"adds/small": Outcome.UNCHANGED}
    path, threads = (warning for warning in done.run.warnings if "The setting" in warning)
    assert path == "The setting python_path differs: python in the head, lib in the reference. Each side was made with its own."
    assert threads.startswith("The setting cpu_threads differs: 2 in the head, 1 in the reference. Both sides were measured with")
