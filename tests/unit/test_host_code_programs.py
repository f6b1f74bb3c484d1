"""Random programs: where two of them give another result, their statements that count must differ."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import pkgutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

from ratchet.measure.host_code.acts import ImportWatch
from ratchet.measure.host_code.statements import LoadedProgram, Wide

pytestmark = pytest.mark.no_cover

Files = dict[str, list[str]]
ENTRY, HELPER = "entry_of_program", "helper_of_program"
_COUNT = itertools.count()

numbers = st.integers(0, 9)
names = st.sampled_from(["a", "b", "c"])
places = st.sampled_from(["", "helper."])


@st.composite
def statements(draw: st.DrawFn, *, entry: bool) -> str:
    """One statement at the top of a module; those of the entry may use the helper module."""
    name, other, number = draw(names), draw(names), draw(numbers)
    where = draw(places) if entry else ""
    alone = [
        f"{name} = {number}",
        f"{name} = {where}{other}",
        f"{name} = {where}{other} + {number}",
        f"def f_{name}(x={where}{other}): return x + {number}",
        f"def f_{name}(): return {where}{other} + {number}",
        f"def f_{name}():\n    global {other}\n    {other} = {number}\n    return {name}",
        f"@decorate\ndef f_{name}(): return {where}{other}",
        f"@register\ndef f_{name}(): return {number}",
        f"{name} = {where}f_{other}()",
        f"STATE.append({where}{other})",
        f"STATE[0] = {number}",
        f"{name} = STATE[-1]",
        f"{name} = [{number}, STATE][0]",
        f"def f_{name}(): return sum(STATE)",
        f"class k_{name}:\n    value = {where}{other}\n    def get(self): return self.value + {number}",
        f"class k_{name}(k_{other}): pass",
        f"{name} = {where}k_{other}().get()",
        f"{name} = k_{other}.value",
        f"if {where}{other} > {number}:\n    {name} = 1\nelse:\n    {name} = 2",
        f"try:\n    {name} = missing\nexcept NameError:\n    {name} = {number}",
        f"for {name} in range({number}): STATE.append({name})",
        f"{name} = {{'x': {number}}}['x']",
        f"globals()['{name}'] = {number}",
        f"globals()[''.join(['{name}'])] = {other}",
        f"{name} = globals()['{other}']",
        f"del STATE[{number}:]",
        f"f_{name} = lambda: {other} * {number}",
        f"{name}, {other} = {other}, {name}",
        f"{name} += {number}",
    ]
    of_entry = [
        f"from {HELPER} import {name}",
        f"from {HELPER} import {other} as {name}",
        f"from {HELPER} import *",
        f"helper.{name} = {number}",
        f"{name} = getattr(helper, '{other}')",
        f"{name} = getattr(helper, ''.join(['{other}']))",
        f"def f_{name}():\n    from {HELPER} import {other}\n    return {other}",
        f"def f_{name}():\n    import {HELPER} as m\n    return m.{other} + {number}",
        f"module = helper\ndef f_{name}(): return module.{other}",
        f"{name} = len(vars(helper))",
        f"{name} = sys.modules['{HELPER}'].{other}",
        f"{name} = getattr(sys.modules.get('{HELPER}'), ''.join(['{other}']))",
        f"{name} = importlib.import_module(''.join(['{HELPER}'])).{other}",
        f"def f_{name}(): return getattr(importlib.import_module(''.join(['{HELPER}'])), ''.join(['{other}']))",
        f"{name} = importlib.import_module('{HELPER}').{other}",
        f"vars(importlib.import_module('{HELPER}'))[''.join(['{name}'])] = {number}",
    ]
    return draw(st.sampled_from(alone + (of_entry if entry else [])))


START = ["STATE = [0]", "def register(f):\n    STATE.append(f())\n    return f", "def decorate(f):\n    return lambda: f() + 1"]
FIRST = [*(f"{name} = {at}" for at, name in enumerate("abc")), *(f"def f_{name}(): return 0" for name in "abc")]
CLASSES = [f"class k_{name}:\n    value = 0\n    def get(self): return 0" for name in "abc"]
BEGIN = [*START, *FIRST, *CLASSES]
results = st.sampled_from(["a", "b", "c", "f_a()", "f_b()", "f_c()", "k_a().get()", "k_b.value", "helper.a", "helper.f_b()"])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Files, Files]:
    """Two programs that differ by an edit or two."""
    before = {
        ENTRY: [
            f"import importlib, sys, {HELPER} as helper",
            *BEGIN,
            *draw(st.lists(statements(entry=True), min_size=1, max_size=8)),
        ],
        HELPER: [*BEGIN, *draw(st.lists(statements(entry=False), max_size=6))],
    }
    before[ENTRY].append(f"def root(): return ({draw(results)}, {draw(results)}, {draw(results)}, {draw(results)})")
    after = {name: list(body) for name, body in before.items()}
    for _ in range(draw(st.integers(1, 2))):
        file = draw(st.sampled_from([ENTRY, HELPER]))
        body = after[file]
        last = len(body) - (file == ENTRY)  # root stays
        at = draw(st.integers(1, last - 1))
        edit = draw(st.sampled_from(["insert", "replace", "remove", "swap"]))
        if edit == "insert":
            body.insert(at, draw(statements(entry=file == ENTRY)))
        elif edit == "replace":
            body[at] = draw(statements(entry=file == ENTRY))
        elif edit == "remove":
            del body[at]
        elif at + 1 < last:
            body[at], body[at + 1] = body[at + 1], body[at]
    return before, after


def outcome(files: Files, *, watched: bool) -> tuple[object, dict[str, str] | None]:
    """Return what a program computes, and the digests of the statements that count; None where everything does.

    ``watched``: the modules that it imports by computed names are known.
    """
    imported: set[str] = set()

    def noting(name: str) -> ModuleType:
        imported.add(name)
        return load(name)

    load = importlib.import_module
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        for name, body in files.items():
            (tree / f"{name}.py").write_text("\n".join(body) + "\n")
        content = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tree.iterdir()}
        program = LoadedProgram(tree, content)
        sys.path.insert(0, folder)
        kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        importlib.invalidate_caches()
        try:
            importlib.import_module = noting
            entry = load(ENTRY)
            result = repr(entry.root())
            program.update()
            return result, dict(program.closure([(ENTRY, "root")], imported=imported if watched else None).digests())
        except Wide:
            return result, None
        finally:
            importlib.import_module = load
            sys.dont_write_bytecode = kept
            sys.path.remove(folder)
            for name in files:
                sys.modules.pop(name, None)


def test_imports_that_did_not_happen_make_nothing_count() -> None:
    """A package that could import other operators by computed names, and does not here, depends on none of them."""
    vendor = [
        "import importlib",
        "from helper_of_program import scale as scale, unused as unused",
        "def replace(name):",
        "    if name:",
        "        found = importlib.import_module(name)",
        "        for each in dir(found):",
        "            if each[0] != '_': globals()[each] = getattr(found, each)",
        "replace('')",
        "def root(): return scale(2)",
    ]
    one, other = (
        {ENTRY: vendor, HELPER: ["def scale(x): return 3 * x", f"def unused(): return {number}"]} for number in range(2)
    )
    assert outcome(one, watched=True) == outcome(other, watched=True)
    assert outcome(one, watched=False) != outcome(other, watched=False)
    asked = [*vendor[:-2], f"replace('{HELPER}')", vendor[-1]]
    seen = [outcome({**files, ENTRY: asked}, watched=True) for files in (one, other)]
    assert seen[0] != seen[1], "it takes every name of the module"


@pytest.mark.parametrize(
    ("where", "name", "leads_nowhere"),
    [("hypothesis", "settings", True), ("importlib", "import_module", False), ("each", "fixture", False)],
)
def test_a_look_at_a_library_leads_to_no_module_of_the_tree(where: str, name: str, leads_nowhere: bool) -> None:
    """`getattr` by a computed name reads what an installed package has; a module of Python's, or any value, may lead further."""
    entry = ["import hypothesis, importlib, helper_of_program, pytest"]
    entry += [f"def root(name='{name}', known='{HELPER}', each=pytest): return getattr({where}, name).__name__"]
    one, other = ({ENTRY: entry, HELPER: [f"unused = {number}"]} for number in range(2))
    assert (outcome(one, watched=False) == outcome(other, watched=False)) is leads_nowhere


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_imports_by_name_are_noted() -> None:
    """A module that is loaded already, or asked for relatively, is noted by its full name; one that a statement names is not."""
    by_libraries: set[str] = set()
    watch = ImportWatch(Path(__file__).resolve().parent, by_libraries)
    importlib.import_module("json.decoder")
    importlib.import_module(".encoder", "json")
    import json.scanner  # noqa: F401

    assert watch.by_tree == {"json.decoder", "json.encoder"}
    assert by_libraries == set()
    pkgutil.resolve_name("json.tool:main")
    assert by_libraries == {"json.tool"}


def swapped() -> tuple[Files, Files]:
    """A program in which one of two statements that bind the same name comes earlier."""
    bodies = (["a = 0", "a = 0", "a += 1"], ["a = 0", "a += 1", "a = 0"])
    first, second = ({ENTRY: [*BEGIN, *body, "def root(): return a"], HELPER: BEGIN} for body in bodies)
    return first, second


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(pairs(), st.booleans())
@example(swapped(), False)
def test_programs_with_other_results_have_other_statements(pair: tuple[Files, Files], watched: bool) -> None:
    """Whatever edits change the result of a program, they change a statement that counts."""
    try:
        (first, before), (second, after) = (outcome(files, watched=watched) for files in pair)
    except (NameError, LookupError, TypeError, ValueError, AttributeError, ImportError, RecursionError):
        assume(False)  # no program
    event("same result" if first == second else "other result")
    event("identical" if before == after else "different")
    if first != second:
        assert before is None or after is None or before != after
