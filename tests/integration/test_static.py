"""A verdict without a GPU, from the commands: what is recorded once answers for later commits, and asks for the GPU otherwise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ratchet.core.errors import Exit
from ratchet.core.records.files import load
from ratchet.core.records.verdict import Outcome
from ratchet.identical.static.records import Recorded
from tests.integration.playground import HARNESS, QUICK, Playground, copy_repository, new_repository
from tests.once import once

BENCH = """\
import torch
from kit.ops import add, mul
from ratchet import Workload, benchmark


@benchmark(devices=("cpu",))
def adds(*, device):
    x = torch.ones(64)
    return Workload(run=lambda: add(x, x))


@benchmark(devices=("cpu",))
def muls(*, device):
    x = torch.ones(64)
    return Workload(run=lambda: mul(x, x))
"""
OPS = """\
import torch
import triton


@triton.jit
def double(x):
    return x * 2


@triton.jit
def _add(x, y, out):
    both = double(x) + y
    return both


@triton.jit
def _mul(x, y, out):
    return x * y


def add(x, y):
    out = torch.zeros_like(x)
    _add[1](x, y, out, SIZE=64)
    return out


def mul(x, y):
    out = torch.zeros_like(x)
    _mul[1](x, y, out, SIZE=64, num_warps=8)
    return out
"""
# zeros_like: kernels of the stand-in do not run, and results are compared.
FILES = {"bench/ops.py": BENCH, "kit/__init__.py": "KIT = True\n", "kit/ops.py": OPS}
STUB = {"PYTHONPATH": f"{HARNESS / 'tests' / 'steady'}:{HARNESS}:{HARNESS / 'tests' / 'data' / 'stub-packages'}"}
pytestmark = pytest.mark.slow
RECORD = Path("results", "static.json")


def _recorded(folder: Path) -> Path:
    new_repository(folder / "repo", FILES)
    assert Playground(folder).ratchet("run", "--static", "--device", "cpu", env=STUB).code == Exit.PASS
    return folder / "repo"


@pytest.fixture
def recorded(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Playground:
    """A repository whose only commit was recorded."""
    copy_repository(once(tmp_path_factory, "recorded", _recorded), tmp_path / "repo")
    return Playground(tmp_path)


def verdicts(play: Playground, **changes: str) -> dict[str, bool]:
    """Commit changes of files of ``kit``, and return whether each case is identical."""
    play.commit({f"kit/{name}.py": text for name, text in changes.items()})
    done = play.ratchet("check", "--static", "--json", env=STUB)
    assert done.code in (Exit.PASS, Exit.NOT_MEASURED), done.err
    play.assert_clean()
    return {case["name"]: case["identical"] for case in json.loads(done.out)["cases"]}


ADDS, MULS = "adds/default", "muls/default"


def test_a_check_counts_a_kernel_for_cases_that_compile_it(tmp_path: Path) -> None:
    """Where the device is at hand, too, a case that does not compile the kernel that changed is identical, and not timed."""
    play = Playground(tmp_path)
    settings = {"pyproject.toml": "[tool.ratchet]\nblock_ms = 10\n"}
    new_repository(tmp_path / "repo", {**FILES, **settings})
    play.commit({"kit/ops.py": OPS.replace("return x * y", "return x * y + 1")})
    done = play.ratchet("check", "--json", *QUICK, env=STUB)
    outcomes = {case["name"]: case["outcome"] for case in json.loads(done.out)["cases"]}
    assert outcomes[ADDS] == Outcome.IDENTICAL
    assert outcomes[MULS] != Outcome.IDENTICAL


@pytest.mark.parametrize(
    ("ops", "same"),
    [
        ("# a word\n" + OPS, {ADDS: True, MULS: True}),
        (OPS.replace("both", "total"), {ADDS: True, MULS: True}),
        (OPS.replace("return x * 2", "return x * 3"), {ADDS: False, MULS: True}),
        (OPS.replace("return x * y", "return x * y + 1"), {ADDS: True, MULS: False}),
        (OPS.replace("return x * y", "return x * unknown"), {ADDS: True, MULS: False}),
        (OPS.replace("num_warps=8", "num_warps=4"), {ADDS: True, MULS: False}),
        (OPS.replace("import triton\n", "import triton\nSIZE = 1\n"), {ADDS: False, MULS: False}),
    ],
    ids=["a comment", "a name", "a helper of a kernel", "a kernel", "a kernel that fails", "host code", "a constant"],
)
def test_only_what_a_change_reaches_needs_the_gpu(recorded: Playground, ops: str, *, same: dict[str, bool]) -> None:
    """A case is identical where nothing that it runs changed, or its kernels compile to the recorded machine code."""
    assert verdicts(recorded, ops=ops) == same


@pytest.mark.parametrize(
    ("changed", "compiled"),
    [
        (OPS.replace("return x * y", "return y * x"), ["_mul", "_mul"]),
        (OPS.replace("return x * 2", "return x * 3"), ["_add", "_add"]),
        (OPS.replace("return both", "return (both)"), []),
    ],
    ids=["a kernel", "what a kernel calls", "nothing that its key shows"],
)
def test_kernels_that_did_not_change_are_not_compiled(tmp_path: Path, changed: str, *, compiled: list[str]) -> None:
    """Of a case's kernels, those are compiled that are made of something else now, the reference's where the head's differ."""
    both = BENCH.replace("add(x, x)", "(add(x, x), mul(x, x))[0]").partition('\n\n\n@benchmark(devices=("cpu",))\ndef muls')[0]
    new_repository(tmp_path / "repo", {**FILES, "bench/ops.py": both})
    play = Playground(tmp_path)
    assert play.ratchet("run", "--static", "--device", "cpu", env=STUB).code == Exit.PASS
    play.git("add", "--force", str(RECORD))
    play.git("commit", "--quiet", "--message", "the record")  # as main keeps it: in a commit after the recorded one
    play.commit({"kit/ops.py": changed})
    log = tmp_path / "compiled"
    log.touch()
    play.ratchet("check", "--static", env={**STUB, "TESTS_COMPILED": str(log)})
    assert log.read_text().split() == compiled


def test_a_new_benchmark_file_needs_the_gpu(recorded: Playground) -> None:
    """A file that the harness would import beside the others may change what they do, and may have cases of its own."""
    recorded.commit({"bench/more.py": "A = 1\n"})
    done = recorded.ratchet("check", "--static", env=STUB)
    assert done.code == Exit.NOT_MEASURED
    assert done.out.count("bench/more.py is new") == 2


def test_a_check_without_a_gpu_writes_what_a_check_writes(recorded: Playground) -> None:
    """Where all cases are identical, the run and its reports are those of a check on the recorded machine."""
    recorded.commit({"README.md": "a word\n"})
    done = recorded.ratchet("check", "--static", "--needed", "needed.txt", env=STUB)
    assert done.code == Exit.PASS
    assert done.outcomes() == {ADDS: Outcome.IDENTICAL, MULS: Outcome.IDENTICAL}
    assert done.run.environment == load(recorded.repo / RECORD, Recorded).environment
    assert (recorded.repo / "needed.txt").read_text() == ""


def test_the_cases_for_the_gpu_are_written_down(recorded: Playground) -> None:
    """A workflow gets the names of the cases that need the GPU, and no report of a check that was not made."""
    recorded.commit({"kit/ops.py": OPS.replace("return x * y", "return y * x * y")})
    done = recorded.ratchet("check", "--static", "--needed", "needed.txt", env=STUB)
    assert done.code == Exit.NOT_MEASURED
    assert (recorded.repo / "needed.txt").read_text() == f"{MULS}\n"
    [line] = [line for line in done.out.splitlines() if "_mul (kit/ops.py): registers" in line]
    assert re.search(r"instructions of PTX (\d+) -> (\d+) \(add \1 -> \2\)$", line)
    assert not (recorded.repo / "results" / "current.json").exists()


def test_another_release_of_triton_proves_nothing(recorded: Playground) -> None:
    """Kernels are compiled by the release that was recorded, or not at all."""
    path = recorded.repo / RECORD
    path.write_text(path.read_text().replace('"triton": "3.6.0"', '"triton": "3.5.0"'))
    assert verdicts(recorded, ops=OPS.replace("both", "total")) == {ADDS: False, MULS: True}


def test_a_reference_that_moved_on_is_held_against_the_record_too(recorded: Playground) -> None:
    """What the reference changed since the record needs the GPU, though the head changes nothing."""
    recorded.commit({"kit/ops.py": OPS.replace("return x * y", "return x * y + 1")})
    recorded.commit({"README.md": "a word\n"})
    done = recorded.ratchet("check", "--static", env=STUB)
    assert done.code == Exit.NOT_MEASURED
    assert "IDENTICAL  adds/default" in done.out
    assert "NEEDS GPU  muls/default" in done.out


def test_a_record_in_the_reference_counts_before_that_of_the_checkout(recorded: Playground) -> None:
    """A pull request cannot bring a record of its own: that of the commit it is compared with is read."""
    text = (recorded.repo / RECORD).read_text()
    recorded.git("add", "--force", str(RECORD))
    recorded.commit({"README.md": "a word\n"})
    recorded.commit({str(RECORD): text.replace("kit/ops.py", "kit/other.py"), "kit/ops.py": OPS.replace("x * y", "x * y + 1")})
    done = recorded.ratchet("check", "--static", env=STUB)
    assert done.code == Exit.NOT_MEASURED


def committed(recorded: Playground) -> str:
    """Commit the record, as main has it, and return it."""
    recorded.git("add", "--force", str(RECORD))
    recorded.commit({"README.md": "a word\n"})
    return (recorded.repo / RECORD).read_text()


def test_the_record_itself_is_no_difference(recorded: Playground) -> None:
    """The commit that brings the record, and one after it, leave every case alone."""
    committed(recorded)
    recorded.commit({"README.md": "two words\n"})
    assert recorded.ratchet("check", "--static", env=STUB).code == Exit.PASS


def test_a_case_that_was_not_written_down_needs_the_gpu(recorded: Playground) -> None:
    """A record of some cases alone proves nothing of the others."""
    assert recorded.ratchet("run", "--static", "adds", "--device", "cpu", env=STUB).code == Exit.PASS
    recorded.commit({"README.md": "a word\n"})
    done = recorded.ratchet("check", "--static", env=STUB)
    assert done.code == Exit.NOT_MEASURED
    assert "it was not written down" in done.out


def test_where_the_build_makes_less_nothing_is_proved(tmp_path: Path) -> None:
    """What was imported where the record was made, and is not there, cannot be compared."""
    ops = "try:\n    from kit import _made\nexcept ImportError:\n    pass\n" + OPS
    build = "import os\nif 'FULL' in os.environ: open('kit/_made.py', 'w').write('N = 2\\n')\n"
    files = {**FILES, "kit/ops.py": ops, "make.py": build}
    new_repository(tmp_path / "repo", files, settings='build = "python3 make.py"\n')
    play = Playground(tmp_path)
    assert play.ratchet("run", "--static", "--device", "cpu", env={**STUB, "FULL": "1"}).code == Exit.PASS
    play.commit({"make.py": build.replace("2", "8")})
    done = play.ratchet("check", "--static", env=STUB)
    assert done.code == Exit.NOT_MEASURED
    assert done.out.count("the build makes no kit/_made.py here") == 2


@pytest.mark.parametrize(
    ("ops", "holds"),
    [("# a word\n" + OPS, True), (OPS.replace("x * y", "x * y + 1"), False), (OPS.replace("num_warps=8", "num_warps=4"), False)],
    ids=["a comment", "a kernel", "host code"],
)
def test_a_record_is_written_anew_only_where_it_no_longer_holds(recorded: Playground, ops: str, *, holds: bool) -> None:
    """A later commit that no case could tell from the recorded one keeps its record, and runs no case."""
    before = committed(recorded)
    recorded.commit({"kit/ops.py": ops})
    done = recorded.ratchet("run", "--static", "--device", "cpu", env=STUB)
    assert done.code == Exit.PASS, done.err
    assert ("no case touches what changed since" in done.out) == holds
    assert ((recorded.repo / RECORD).read_text() == before) == holds


@pytest.mark.parametrize(
    ("files", "words", "sentence"),
    [
        ({"README.md": "a word\n"}, ("check", "--static", "--base", "HEAD"), "There is no record of the cases"),
        ({"kit/ops.py": OPS + "A = 1\n"}, ("run", "--static", "--device", "cpu"), "There are uncommitted changes"),
    ],
)
def test_what_is_missing_is_said(recorded: Playground, files: dict[str, str], words: tuple[str, ...], sentence: str) -> None:
    """Without a record, and for a checkout that is no commit, one sentence says what to do."""
    (recorded.repo / RECORD).unlink()
    for name, text in files.items():
        (recorded.repo / name).write_text(text)
    done = recorded.ratchet(*words, env=STUB)
    assert done.code == Exit.USAGE
    assert done.sentence.startswith(sentence)


UNSEEN = {
    "bench/plus.py": """\
import torch
from kit import expected, rare
from ratchet import Workload, benchmark

try:
    import accelerated
except ImportError:
    accelerated = None


@benchmark(devices=("cpu",))
def plus(*, device):
    x, calls = torch.ones(64), []

    def run():
        calls.append(1)
        if len(calls) % 8 == 0:
            rare.flush()
        return x + 1

    return Workload(run=run, reference=lambda: expected.plus(x))
""",
    "kit/expected.py": "def plus(x):\n    return x.double() + 1\n",
    "kit/rare.py": "def flush():\n    return 1\n",
}


def _unseen(folder: Path) -> Path:
    new_repository(folder / "repo", UNSEEN)
    assert Playground(folder).ratchet("run", "--static", "--device", "cpu").code == Exit.PASS
    return folder / "repo"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ("kit/expected.py", "def plus(x):\n    return x.double() + 2\n"),
        ("kit/rare.py", "def flush():\n    return 2\n"),
        ("bench/tuned.json", "{}\n"),
        ("src/accelerated.py", "N = 1\n"),
        ("typing_extensions.py", "N = 1\n"),
        ("notes.md", "None of these.\n"),
    ],
)
def test_what_a_first_call_does_not_show_needs_the_gpu(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, changed: str, text: str
) -> None:
    """So does what a reference or each eighth call runs; tuned parameters; a module where none was found, or looked for."""
    copy_repository(once(tmp_path_factory, "unseen", _unseen), tmp_path / "repo")
    play = Playground(tmp_path)
    play.commit({changed: text})
    done = play.ratchet("check", "--static", "--json")
    assert [case["identical"] for case in json.loads(done.out)["cases"]] == [changed == "notes.md"], done
