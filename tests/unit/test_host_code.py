"""The identity of host code: every planted change is seen where it matters, and what changes nothing is not."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from ratchet.config import Settings
from ratchet.measure.child.host import load
from ratchet.measure.child.loader import LoadedTree
from ratchet.measure.host_code import FunctionWatch, _content
from ratchet.measure.host_code.acts import LISTING, WATCHED, ActWatch
from ratchet.measure.messages import HostParts, parse
from ratchet.measure.tree_spec import TreeSpec
from tests.once import once
from tests.planted_host_code import CHANGES, HARMLESS, HELD_OUT, PROJECT, Change

pytestmark = pytest.mark.no_cover


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def identified(tree: Path) -> TreeSpec:
    spec = TreeSpec.of(Settings(), tree, checkout=tree.parent / "checkout", device="cpu", gpu_uuid=None)
    return replace(spec, identified=True)


def identities(tree: Path, *cases: str) -> dict[str, HostParts]:
    """Return the host code of cases, each called in a process of its own that is forked from one that imported the tree."""
    spec = identified(tree.resolve())

    def host(writer: int) -> None:
        loaded = load(spec)
        assert loaded.code is not None
        loaded.code.update()
        imports = loaded.code.acts.seen
        found = {case: forked(lambda out, case=case: worker(out, loaded, case, imports)) for case in cases}
        os.write(writer, json.dumps(found).encode())

    def worker(writer: int, loaded: LoadedTree, case: str, imports: frozenset[str]) -> None:
        assert loaded.code is not None
        loaded.code.acts._seen = set(imports)  # the test's own fork is not the harness's
        workload = loaded.build(f"{case}/default", 1)
        with FunctionWatch() as watch:
            workload.run()
        found = loaded.code.identity(loaded.benchmark(f"{case}/default"), {}, watch.ran)
        os.write(writer, json.dumps(vars(found)).encode())

    return {case: parse(json.loads(answer), HostParts) for case, answer in json.loads(forked(host)).items()}


def forked(work) -> str:
    """Return what a function writes to a pipe in a process of its own."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.close(reader)
            work(writer)
        except BaseException:  # noqa: BLE001  the parent cannot see it otherwise
            traceback.print_exc()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HostParts]:
    """The host code of all cases of the project as it is. torch is imported here, and so by none of the forked processes."""
    import torch  # noqa: F401

    names = {change.case for change in (*CHANGES, *HELD_OUT, *HARMLESS)} | {"alone"}
    found: dict[str, HostParts] = once(
        tmp_path_factory, "host-code", lambda folder: identities(write(folder, PROJECT), *sorted(names))
    )
    return found


def changed(folder: Path, change: Change) -> Path:
    text = PROJECT.get(change.file, "")
    assert change.old in text
    assert change.new != change.old or change.file not in PROJECT
    return write(folder, {**PROJECT, change.file: text.replace(change.old, change.new, 1) if text else change.new})


@pytest.mark.slow
def test_the_same_project_elsewhere_is_the_same(tmp_path: Path, before: dict[str, HostParts]) -> None:
    """The same files at another path give every case the same host code, and each case has one."""
    after = identities(write(tmp_path / "a longer path", PROJECT), *before)
    assert {name: one.difference(before[name]) for name, one in after.items()} == dict.fromkeys(before, "")
    assert {name for name, one in after.items() if not one.digest} == set()


@pytest.mark.slow
@pytest.mark.parametrize("change", [pytest.param(one, id=one.name) for one in CHANGES])
def test_a_change_is_seen(tmp_path: Path, before: dict[str, HostParts], change: Change) -> None:
    """A change is a difference for the case that uses it, and mostly for no other."""
    after = identities(changed(tmp_path, change), change.case, "alone")
    assert after[change.case].difference(before[change.case])
    assert not change.spares or not after["alone"].difference(before["alone"])


@pytest.mark.parametrize("change", [pytest.param(one, id=one.name) for one in HARMLESS])
def test_what_changes_nothing_is_no_difference(tmp_path: Path, before: dict[str, HostParts], change: Change) -> None:
    """A case stays the same where nothing changed that it depends on."""
    after = identities(changed(tmp_path, change), change.case)
    assert after[change.case].difference(before[change.case]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("change", [pytest.param(one, id=one.name) for one in HELD_OUT])
def test_a_change_that_was_set_aside_is_seen(tmp_path: Path, before: dict[str, HostParts], change: Change) -> None:
    """These changes were written before the code was finished, and not tried until then."""
    after = identities(changed(tmp_path, change), change.case, "alone")
    assert after[change.case].difference(before[change.case])
    assert not change.spares or not after["alone"].difference(before["alone"])


def test_compiled_files_that_python_does_not_check(tmp_path: Path) -> None:
    """A compiled file that Python runs without a look at its source counts; the others, which a build may leave, do not."""
    tree = write(tmp_path, {"a.py": "A = 1\n"})
    modes = py_compile.PycInvalidationMode
    for mode in (modes.TIMESTAMP, modes.CHECKED_HASH):
        py_compile.compile(str(tree / "a.py"), invalidation_mode=mode)
        assert set(_content(tree, tree / "results")) == {"a.py"}
    place = Path(py_compile.compile(str(tree / "a.py"), invalidation_mode=modes.UNCHECKED_HASH))
    assert set(_content(tree, tree / "results")) == {"a.py", str(place.relative_to(tree))}


def test_a_difference_is_named() -> None:
    """The first part that differs is named, with the reason if every file counts; what is not compared says why."""
    one, other = HostParts(parts={"a.py: X": "1", "b.py: f": "2"}), HostParts(parts={"a.py: X": "2"})
    assert one.difference(other) == "a.py: X and 1 more changed"
    assert one.difference(one) == ""
    assert one.digest != other.digest
    wide = HostParts(parts={"a.py": "1"}, note="it lists folders (a.py:3)")
    assert wide.difference(HostParts(parts={"a.py": "2"})).endswith("every file of the tree counts: it lists folders (a.py:3)")
    unknown = HostParts(unknown="the tree is too large")
    assert (unknown.digest, one.difference(unknown)) == (
        "",
        "its host code is not compared: the tree is too large",
    )


@pytest.mark.parametrize(
    ("case", "reason"),
    [("with_exec", "it runs text as code"), ("with_plugins", "it lists folders"), ("with_program", "another program may")],
)
def test_what_no_name_shows_makes_everything_count(before: dict[str, HostParts], case: str, reason: str) -> None:
    """Where code reads in ways that no name shows, each file counts, and the reason names the line."""
    assert before[case].note.startswith(reason)
    assert "kernels/dynamic.py:" in before[case].note
    assert "kernels/unrelated.py" in before[case].parts


def test_a_function_that_no_name_leads_to_makes_everything_count(tmp_path: Path) -> None:
    """Should a function run that is in no statement that counts, every file does."""
    tree = write(tmp_path, PROJECT).resolve()
    spec = identified(tree)

    def host(writer: int) -> None:
        loaded = load(spec)
        assert loaded.code is not None
        line = 1 + PROJECT["kernels/unrelated.py"].splitlines().index("def first(x):")
        ran = frozenset({(str(tree / "kernels/unrelated.py"), line, "first")})
        found = loaded.code.identity(loaded.benchmark("alone/default"), {}, ran)
        os.write(writer, json.dumps(vars(found)).encode())

    found = parse(json.loads(forked(host)), HostParts)
    assert found.note == "first in kernels/unrelated.py:3 ran, and no name leads to it"


def test_source_that_is_read_counts_with_its_comments(tmp_path: Path) -> None:
    """Where a case reads source as text, the files that it read count with their comments, and no others."""
    project = {
        "kernels/read.py": "def read(x):\n    # a comment\n    return x\n",
        "kernels/called.py": "def called(x):\n    # a comment\n    return x\n",
        "bench/cases.py": "import inspect\nimport torch\nfrom ratchet import benchmark\nfrom kernels.called import called\n"
        "from kernels.read import read\n\n@benchmark(devices=('cpu',))\ndef case(*, device):\n    x = torch.ones(4)\n"
        "    return lambda: called(x) * len(inspect.getsource(read))\n",
    }
    before = identities(write(tmp_path / "before", project), "case")["case"]
    files = {}
    for name in ("kernels/read.py", "kernels/called.py"):
        text = project[name].replace("# a comment", "# another comment")
        after = identities(write(tmp_path / name, {**project, name: text}), "case")["case"]
        files[name] = after.difference(before)
    assert files == {"kernels/read.py": "kernels/read.py changed", "kernels/called.py": ""}


@pytest.mark.parametrize(
    ("module", "does", "acts"),
    [
        ("torch", "os.scandir(place).close()", set()),
        ("torch.utils.data", "os.scandir(place).close()", {LISTING}),
        ("cuda.pathfinder", "subprocess.run(['true'])", set()),
        ("datasets", "subprocess.run(['true'])", WATCHED),
    ],
)
def test_looking_for_cuda_is_no_act_of_the_tree(tmp_path: Path, module: str, does: str, acts: set[str]) -> None:
    """torch lists the folders of `sys.path` for CUDA's libraries, and NVIDIA's package asks ldconfig: so on every GPU machine."""
    watch = ActWatch(tmp_path)
    code = compile(does, f"/packages/{module.replace('.', '/')}.py", "exec")
    exec(code, {"__name__": module, "os": os, "subprocess": subprocess, "place": str(tmp_path)})
    assert watch._seen == acts


def test_a_process_that_is_spawned_may_have_done_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No event says that `multiprocessing` spawns a process; that it has loaded what spawns does."""
    monkeypatch.delitem(sys.modules, "multiprocessing.popen_spawn_posix", raising=False)
    watch = ActWatch(tmp_path)
    before = watch.seen
    monkeypatch.setitem(sys.modules, "multiprocessing.popen_spawn_posix", ModuleType("popen_spawn_posix"))
    assert (before, watch.seen) == (frozenset(), WATCHED)


def test_functions_are_read_while_a_thread_goes_on() -> None:
    """A thread that was started within the watch and still runs may add a function at any time; reading does not fail."""

    def define_and_call() -> None:
        for number in range(3000):
            exec(f"def f{number}(): pass\nf{number}()")

    with FunctionWatch() as watch:
        thread = threading.Thread(target=define_and_call)
        thread.start()
    counts = [len(watch.ran)]
    while thread.is_alive():
        counts.append(len(watch.ran))
    thread.join()
    assert counts == sorted(counts)
    assert len(watch.ran) > 3000
