"""`ratchet evaluate`: no cheat of tests/cheats is called faster, no candidate of tests/honest is accused, and its lines."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ratchet.lab.child import containment
from ratchet.lab.judge import HANDS_OVER
from tests.integration.playground import Finished, Playground
from tests.warm import REAL_RUNNER

TESTS = Path(__file__).parents[1]
BASELINE = TESTS / "cheats" / "baseline_of_all.py"
BESIDE = ("base", "make_", "cheat_helper")
CHEATS = sorted(path for path in (TESTS / "cheats").glob("*.py") if not path.stem.startswith(BESIDE))
if "BOUNDARY" in os.environ:  # half an hour: for those who change the evaluator (CONTRIBUTING.md)
    CHEATS += sorted((TESTS / "cheats" / "boundary").glob("*.py"))
HONEST = sorted(path for path in (TESTS / "honest").glob("*.py") if not path.stem.startswith(("base_", "sibling_of_")))
if "BOUNDARY" in os.environ:
    HONEST += sorted((TESTS / "honest" / "boundary").glob("*.py"))
NEEDED = {"pid", "mount"}
"""What has to hold where cheats run that would stop processes and change files of the machine."""
QUICK = ("--device", "cpu", "--pairs", "8")
"""As few pairs as a verdict takes: with fewer, nothing is ever faster."""
SMALL = (*QUICK, "--input", "64x64")
WAITS = "import time\nimport torch\n\ndef kernel(x):\n    time.sleep({seconds})\n    return torch.relu(x)\n"


@pytest.fixture
def place(tmp_path: Path) -> Playground:
    """A folder that is no repository."""
    (tmp_path / "repo").mkdir()
    return Playground(tmp_path)


def evaluated(place: Playground, *words: str | Path, is_real: bool = False) -> tuple[Finished, dict[str, Any]]:
    """Evaluate two files. ``is_real``: the confined processes are no forks of the warm one, since they are what is tested."""
    small = QUICK if {"--input", "--inputs"} & set(words) else SMALL
    done = place.ratchet("evaluate", *small, *map(str, words), "--json", env={REAL_RUNNER: "1"} if is_real else None)
    return done, json.loads(done.out)


def words_of(candidate: Path) -> tuple[Path, Path, list[str]]:
    """Return the baseline that a candidate names, the candidate, and its options; files lie beside it."""
    text = candidate.read_text(encoding="utf-8")
    named = re.search(r"^# baseline: (\w+)$", text, re.MULTILINE)
    options = re.search(r"^# options: (.+)$", text, re.MULTILINE)
    words = options[1].split() if options else []
    words = [str(candidate.with_name(word)) if re.match(r"make_\w+\.py:", word) else word for word in words]
    beside = candidate.parent / "baselines" if candidate.parent.joinpath("baselines").is_dir() else candidate.parent
    return beside / f"{named[1]}.py" if named else BASELINE, candidate, words


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def write(place: Playground, **files: str) -> tuple[Path, ...]:
    paths = tuple(place.repo / f"{name}.py" for name in files)
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS, ids=name_of)
def test_a_cheat_gains_nothing(place: Playground, cheat: Path) -> None:
    """One that names how it is caught breaks that rule (exit 1); others are not faster, or are told that they save too little."""
    if cheat.parent.name == "boundary" and not set(containment.available(place.repo)) >= NEEDED:
        pytest.skip("this machine lets a cheat reach other processes and files")
    shutil.copytree(cheat.parent, place.repo / "cheats")  # some would write there
    baseline, candidate, words = words_of(place.repo / "cheats" / cheat.name)
    rules = re.search(r"^# caught as: (.+)$", cheat.read_text(encoding="utf-8"), re.MULTILINE)
    done, record = evaluated(place, baseline, candidate, *words, is_real=cheat.parent.name == "boundary")
    if rules is None:
        taken_over = "# not covered: hands over" in cheat.read_text(encoding="utf-8")
        assert record["verdict"] != "faster" or (taken_over and HANDS_OVER in record["headline"]), done.out
        assert "failed" not in [violation["rule"] for violation in record["violations"]]  # or it never came to its trick
        return
    assert (done.code, record["verdict"]) == (1, "violated"), done.out
    assert record["violations"][0]["rule"] in rules[1].split()
    assert (record["speedup"] is None) == (rules[1] != "memory")


@pytest.mark.slow
@pytest.mark.parametrize("honest", HONEST, ids=name_of)
def test_an_honest_candidate_is_not_accused(place: Playground, honest: Path) -> None:
    """However it computes, it breaks no rule, and it gets figures unless its baseline cannot be measured."""
    baseline, candidate, words = words_of(honest)
    _, record = evaluated(place, baseline, candidate, *words, is_real=honest.parent.name == "boundary")
    assert record["violations"] == []
    for warned in re.findall(r"^# warned of: (.+)$", honest.read_text(encoding="utf-8"), re.MULTILINE):
        assert any(warned in warning for warning in record["warnings"])
    if "# not measured\n" in honest.read_text(encoding="utf-8"):
        assert record["verdict"] == "not measured"
        return
    assert record["verdict"] != "not measured", record["headline"]
    assert record["speedup"] > 0


@pytest.fixture(scope="module")
def won(warm: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, str]:
    """One evaluation of a faster candidate, whose lines and certificate several tests look at; its files are gone."""
    folder = tmp_path_factory.mktemp("won")
    (folder / "repo").mkdir()
    place = Playground(folder)
    fast, slow = write(place, fast=WAITS.format(seconds=1e-3), slow=WAITS.format(seconds=8e-3))
    done = place.ratchet("evaluate", str(slow), str(fast), "--device", "cpu", "--input", "64x64", "--certify", "win.json")
    fast.unlink()
    slow.unlink()
    return done, (place.repo / "win.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_lines_that_scripts_read(place: Playground, won: tuple[Finished, str]) -> None:
    """Names, order and decimals are those of the seed; the interval and the verdict follow. A slower candidate exits with 1."""
    fast, slow = write(place, fast=WAITS.format(seconds=1e-3), slow=WAITS.format(seconds=8e-3))
    done, _ = won
    lines = done.out.splitlines()
    figures = ("speedup", "baseline_ms", "optimized_ms", "kernel_time_ms")
    for name, line in zip(figures, lines, strict=False):
        assert re.fullmatch(rf"{name}: \d+\.\d{{4}}", line), done.out
    assert re.fullmatch(r"peak_memory_mb: \d+\.\d\d", lines[4])
    assert re.fullmatch(r"current_memory_mb: \d+\.\d\d", lines[5])
    assert float(lines[5].split()[1]) <= float(lines[4].split()[1])
    assert lines[6] == "verdict: faster"
    assert re.search(r"times as fast \(95 % interval [\d.]+ to [\d.]+, 12 pairs\)", lines[7])
    assert done.code == 0
    assert place.ratchet("evaluate", str(fast), str(slow), *SMALL).code == 1


@pytest.mark.slow
def test_what_a_file_sets_up_once_is_in_no_time(place: Playground) -> None:
    """A table made at the top level takes 0.3 s, once in each process; it is printed, held, and in no call."""
    slow = write(place, base="import torch\ndef kernel(x):\n    return x * 2\n")[0]
    text = "import time\nimport torch\ntime.sleep(0.3)\nTABLE = torch.ones(1 << 22)\n\n\ndef kernel(x):\n    return x * 2\n"
    prepared = write(place, prepared=text)[0]
    done = place.ratchet("evaluate", str(slow), str(prepared), *SMALL, "--json")
    seen = json.loads(done.out)
    observed = seen["observed"]
    assert observed["setup_s"]["head"] > 0.3 > observed["setup_s"]["reference"]
    assert seen["optimized_ms"] < 100
    assert observed["held"]["head"] > observed["held"]["reference"] + (8 << 20)


@pytest.mark.slow
def test_a_candidate_that_is_far_slower_is_not_called_often(place: Playground) -> None:
    """Where only `slower` is left, few pairs are planned; the certificate with these is read, judged and run again."""
    quick = "def kernel(x):\n    return x * 2\n"
    base, slow = write(place, base=quick, slow=f"import time\n{quick}".replace("return", "time.sleep(1)\n    return"))
    certificate = place.folder / "slow.json"
    done = place.ratchet("evaluate", str(base), str(slow), *SMALL, "--certify", str(certificate), "--json")
    seen = json.loads(done.out)
    assert (done.code, seen["verdict"], seen["observed"]["plan"]["pairs"]) == (1, "slower", 3)
    again = place.ratchet("evaluate", "--verify", str(certificate))
    assert again.out.splitlines()[-1].startswith("Certificate confirmed: slower then, slower now")


@pytest.mark.slow
def test_a_certificate_is_run_again(place: Playground, won: tuple[Finished, str]) -> None:
    """It holds the sources: the files may be gone. One whose source was edited is refused."""
    done, certificate = won
    assert done.code == 0
    edited = place.repo / "win.json"
    edited.write_text(certificate, encoding="utf-8")
    again = place.ratchet("evaluate", "--verify", "win.json", "--device", "cpu")
    assert again.code == 0, again.err
    assert again.out.splitlines()[-1].startswith("Certificate confirmed: faster then, faster now (")
    edited.write_text(edited.read_text(encoding="utf-8").replace("time.sleep(0.008)", "time.sleep(0.800)"), encoding="utf-8")
    refused = place.ratchet("evaluate", "--verify", "win.json")
    assert refused.code == 2
    assert "baseline does not match its digest" in refused.sentence


BROKEN = {
    "no_function": ("def kern(x):\n    return x\n", "no_function.py has no function kernel (it has: kern)"),
    "no_import": ("import not_there\n", "No module named 'not_there'"),
    "no_memory": ("def kernel(x):\n    raise MemoryError('too much')\n", "MemoryError: too much"),
    "never_ends": ("def kernel(x):\n    while True:\n        pass\n", "hung: no answer within 10 s"),
    "two_arguments": ("def kernel(x, y):\n    return x\n", "missing 1 required positional argument: 'y'"),
    "syntax": ("def kernel(x)\n", "SyntaxError: expected ':'"),
    "crashes": ("import os\n\ndef kernel(x):\n    os.abort()\n", "crashed: its process died of SIGABRT"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_candidate_ends_with_one_sentence(place: Playground, name: str) -> None:
    """A missing function, an import that fails, no memory, an endless loop, a crash: exit code 1, within the time limit."""
    text, sentence = BROKEN[name]
    (path,) = write(place, **{name: text})
    done, record = evaluated(place, BASELINE, path, *(("--case-timeout", "10s") if name == "never_ends" else ()))
    assert done.code == 1
    assert [violation["rule"] for violation in record["violations"]] == ["failed"]
    assert sentence in record["violations"][0]["message"]
    hints = {"no_function": "--function", "never_ends": "--case-timeout", "two_arguments": "--input"}
    assert hints.get(name, "") in record["violations"][0]["detail"]


def test_a_broken_baseline_is_no_verdict(place: Playground) -> None:
    """Exit code 3, and the sentence names the baseline, whatever the candidate does."""
    (path,) = write(place, broken="def kernel(x):\n    raise ValueError('no')\n")
    for candidate in (BASELINE, path):
        done, record = evaluated(place, path, candidate)
        assert (done.code, record["verdict"]) == (3, "not measured")
        assert "The baseline failed: ValueError: no" in record["headline"]


WRITES = (
    "from pathlib import Path\n\nPath(__file__).with_name('ops.py').write_text('A = 2')\n\ndef kernel(x):\n    return x + 1\n"
)
TRIES = """\
import json, os, socket
from pathlib import Path

FOUND = {}

def can(name, attempt):
    try:
        FOUND[name] = bool(attempt())
    except OSError:
        FOUND[name] = False

HERE = Path(__file__).parent
can("mount", lambda: (HERE / "written.txt").write_text("x"))
can("net", lambda: socket.create_connection(("192.0.2.1", 9), 2) or True)
can("pid", lambda: len([name for name in os.listdir("/proc") if name.isdecimal()]) > 3)
can("cores", lambda: os.sched_setaffinity(0, range(os.cpu_count())) or len(os.sched_getaffinity(0)) > 1)
can("cache", lambda: (Path(os.environ["TMPDIR"]) / "one").write_text("x"))
can("memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
raise ValueError(json.dumps(FOUND, sort_keys=True))
"""


def test_a_neighbour_that_changes_is_noticed(place: Playground) -> None:
    """Where files are not read-only, the baseline may have imported something else: there is no verdict."""
    path, _ = write(place, writes=WRITES, ops="A = 1\n")
    _, record = evaluated(place, path, path, is_real=True)
    is_read_only = "mount" in record["observed"]["contained"]
    assert record["verdict"] == "not measured"
    assert ("Read-only" if is_read_only else "ops.py changed while") in record["headline"]


def test_a_file_is_confined(place: Playground) -> None:
    """What the record calls contained cannot be done; a cache can be written, and no other process be read."""
    (path,) = write(place, tries=TRIES)
    _, record = evaluated(place, BASELINE, path, is_real=True)
    found = json.loads(record["violations"][0]["message"].removeprefix("ValueError: "))
    assert found["cache"]
    assert not found["memory"]
    assert not any(found[part] for part in record["observed"]["contained"] if part in found)
    assert not ("mount" in record["observed"]["contained"] and (place.repo / "written.txt").exists())


ATTACKS = {
    "files without end": ("open('/dev/shm/big', 'wb').truncate(5 << 30)", "File too large"),
    "all memory": ("torch.empty(20 << 30, dtype=torch.uint8)", "can't allocate memory"),
    "all descriptors": ("KEPT.extend(os.open(os.devnull, 0) for _ in range(9999))", "Too many open files"),
    "memory in a file": ("KEPT.append(open('/dev/shm/x', 'wb').write(bytes(90 << 20)))", "exceeds limit"),
    "memory without a name": ("KEPT.append(os.memfd_create('x')); os.write(KEPT[0], bytes(90 << 20))", "exceeds limit"),
    "standing still": ("os.kill(os.getpid(), signal.SIGSTOP)", "hung: no answer"),
}
ATTACK = """\
import os, signal, torch

KEPT = []

def kernel(x):
    if not KEPT:
        {words}
        KEPT.append(1)
    return torch.softmax(2 * x, -1) * x
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_file_takes_is_bounded_and_counted(place: Playground, name: str) -> None:
    """More than is allowed is refused by the kernel or seen by the referee; the command ends all the same."""
    words, sentence = ATTACKS[name]
    if "/dev/shm" in words and not set(containment.available(place.repo)) >= NEEDED:
        pytest.skip("this machine shares /dev/shm with the file")
    (path,) = write(place, attack=ATTACK.format(words=words))
    done, record = evaluated(place, BASELINE, path, "--memory-limit", "60MB", "--case-timeout", "10s", is_real=True)
    assert done.code == 1, done.out
    assert sentence in record["violations"][0]["message"]


def test_wrong_usage_is_code_2(place: Playground) -> None:
    """A file that is not there, an input or a size that cannot be read."""
    assert "baseline.py cannot be read: No such file" in place.ratchet("evaluate").sentence
    for words in (("--input", "4096by4096"), ("--memory-limit", "much"), ("--seeds", "one"), ("--inputs", "make.py")):
        assert place.ratchet("evaluate", str(BASELINE), str(BASELINE), *words).code == 2


@pytest.mark.slow
def test_several_arguments_and_a_maker_of_arguments(place: Playground) -> None:
    """--input repeated gives several arguments; --inputs calls a function of the user with seed and device."""
    text = "import torch\n\ndef kernel(x, index, scale):\n    return x[index] * scale\n"
    maker = (
        "import torch\n\ndef make(seed, device):\n    torch.manual_seed(seed)\n"
        "    return torch.randn(64, 8, device=device), torch.randperm(64, device=device), 0.5\n"
    )
    one, make = write(place, one=text, make=maker)
    words = ("--device", "cpu", "--pairs", "8", "--json")
    several = ("--input", "64x8:float64", "--input", "32:int64:0..64", "--input", "=0.5")
    for inputs in (several, ("--inputs", f"{make}:make")):
        done = place.ratchet("evaluate", str(one), str(one), *inputs, *words)
        record = json.loads(done.out)
        assert record["violations"] == [], done.out
        assert record["speedup"] is not None
    make.write_text(maker.replace("0.5", "seed % 1000"), encoding="utf-8")
    done = place.ratchet("evaluate", str(one), str(one), "--inputs", f"{make}:make", *words)
    assert "only tensors may differ" in json.loads(done.out)["headline"]
