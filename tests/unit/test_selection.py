"""What both trees offer → the cases of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ratchet.core.bench.child.registry import select, unmatched
from ratchet.core.bench.messages import CaseListed, FileBroken, Listing
from ratchet.core.bench.selection import choose_cases
from ratchet.core.errors import UsageError
from ratchet.core.records.run import CaseRun

NAMES = ("attention/training_512", "attention/inference_4k", "softmax/rows_512", "copy/32m")


def listed(name: str, skipped: str = "", **parameters: int) -> CaseListed:
    benchmark, _, config = name.partition("/")
    return CaseListed(
        name=name, benchmark=benchmark, config=config, file=f"{benchmark}.py", parameters=parameters, skipped=skipped
    )


def listing(*names: str, broken: tuple[FileBroken, ...] = ()) -> Listing:
    return Listing(cases=tuple(listed(name) for name in names), broken=broken)


def broken(file: str, *cases: str) -> FileBroken:
    return FileBroken(file=file, message="ValueError: no\nsuch \x1b[31mlayout", last_lines=("a\x1b[0m", "b"), cases=cases)


def by_name(cases: list[CaseRun]) -> dict[str, CaseRun]:
    return {case.name: case for case in cases}


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ([], NAMES),
        (["attention/training_512"], NAMES[:1]),
        (["attention"], NAMES[:2]),
        (["rows_512"], NAMES[2:3]),
        (["*_512"], (NAMES[0], NAMES[2])),
        (["copy", "inference_*"], (NAMES[1], NAMES[3])),
        (["att*/*512", "attention/*"], NAMES[:2]),
        (["[cs]o*"], NAMES[2:]),
        (["Attention"], ()),
    ],
)
def test_patterns(patterns: list[str], chosen: tuple[str, ...]) -> None:
    """A pattern is a case, a benchmark, a config or a glob of one; none selects all; the order stays, nothing comes twice."""
    assert tuple(select(NAMES, patterns)) == chosen
    assert unmatched(NAMES, patterns) == (["Attention"] if patterns == ["Attention"] else [])
    if patterns != ["Attention"]:
        assert tuple(case.name for case in choose_cases(listing(*NAMES), None, patterns)) == chosen


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("atention", "No case, benchmark or config is called atention. Did you mean attention"),
        ("attention/training_51", "Did you mean attention/training_512"),
        ("rows_521", "Did you mean rows_512"),
        ("zzz", "is called zzz."),
    ],
)
def test_unknown_pattern(pattern: str, said: str) -> None:
    """A pattern that matches nothing is refused with near misses, also beside one that does."""
    with pytest.raises(UsageError) as caught:
        choose_cases(listing(*NAMES), None, ["copy", pattern])
    assert said in str(caught.value)
    assert str(caught.value).endswith("See `ratchet doctor cases`.")
    assert ("Did you mean" in str(caught.value)) == (pattern != "zzz")


def test_new_and_missing() -> None:
    """A case of one side only says on which side it is missing; a pattern may name either."""
    found = by_name(choose_cases(listing("a/x", "a/new"), listing("a/x", "a/gone"), []))
    assert list(found) == ["a/x", "a/new", "a/gone"]
    sides = {name: (case.in_head, case.in_reference) for name, case in found.items()}
    assert sides == {"a/x": (True, True), "a/new": (True, False), "a/gone": (False, True)}
    assert not any(case.failures for case in found.values())
    assert [case.name for case in choose_cases(listing("a/x"), listing("a/gone"), ["gone"])] == ["a/gone"]


def test_one_side_alone() -> None:
    """Where there is nothing to compare with, no case is new; where the reference has no benchmarks, all are."""
    assert all(case.in_reference for case in choose_cases(listing("a/x"), None, []))
    assert not any(case.in_reference for case in choose_cases(listing("a/x"), Listing(), []))
    assert choose_cases(Listing(), None, []) == []


def test_parameters_and_skipped() -> None:
    """A case has the head's parameters, the reference's where the head has none, and says why it is skipped."""
    head = Listing(cases=(listed("a/x", rows=2), listed("a/skipped", skipped="needs triton")))
    reference = Listing(cases=(listed("a/x", rows=9), listed("a/gone", rows=5), listed("a/skipped")))
    found = by_name(choose_cases(head, reference, []))
    assert found["a/x"].config.parameters == {"rows": 2}
    assert found["a/gone"].config.parameters == {"rows": 5}
    assert found["a/skipped"].skipped == "needs triton"
    assert found["a/x"].skipped is None
    assert (found["a/x"].benchmark, found["a/x"].config.name) == ("a", "x")


def test_skipped_in_the_reference_only() -> None:
    """What the head can run and the reference cannot is measured on the head, and the reference's reason is kept."""
    reference = Listing(cases=(listed("a/x", skipped="needs triton, which is not installed"),))
    (found,) = choose_cases(listing("a/x"), reference, [])
    assert found.skipped is None
    assert [(failure.side, failure.message) for failure in found.failures] == [
        ("reference", "needs triton, which is not installed")
    ]


MISSING = {"skipped": "needs mylib, which is not installed", "import_error": "ModuleNotFoundError: No module named 'mylib'"}


def not_importable(name: str, file: str = "softmax.py") -> CaseListed:
    return replace(listed(name), file=file, **MISSING)


def test_not_importable_in_the_head_only() -> None:
    """What the reference has and the head cannot import fails with the import error, in whatever file it was."""
    head = Listing(cases=(not_importable("softmax/told"), not_importable("softmax/moved", "other.py")))
    found = by_name(choose_cases(head, listing("softmax/told", "softmax/untold", "softmax/moved"), []))
    assert set(found) == {"softmax/told", "softmax/untold", "softmax/moved"}
    for case in found.values():
        (failure,) = case.failures
        assert (failure.side, failure.stage, case.skipped, case.in_head) == ("head", "import", None, True)
        assert failure.message.endswith(".py: ModuleNotFoundError: No module named 'mylib'")


def test_not_importable_on_both_sides_or_alone() -> None:
    """What neither side can import, what is new, and what is timed alone stays skipped with what it needs."""
    head = Listing(cases=(not_importable("softmax/x"),))
    for reference in (head, Listing(cases=(listed("softmax/x", skipped="runs on cuda only"),)), listing("copy/32m"), None):
        case = by_name(choose_cases(head, reference, []))["softmax/x"]
        assert (case.skipped, case.failures) == ("needs mylib, which is not installed", ())


def test_a_benchmark_that_lost_its_decorator() -> None:
    """A case of the reference whose function is still there fails; one whose function is gone, or elsewhere, is missing."""
    head = Listing(cases=(listed("copy/32m"),), undeclared={"softmax": "softmax.py", "norm": "other.py"})
    found = by_name(choose_cases(head, listing("copy/32m", "softmax/a", "softmax/b", "norm/a", "gone/a"), []))
    for name in ("softmax/a", "softmax/b"):
        (failure,) = found[name].failures
        assert (failure.side, failure.stage) == ("head", "import")
        assert failure.message.startswith("softmax.py has softmax() without @benchmark")
    assert [found[name].in_head for name in ("norm/a", "gone/a", "copy/32m")] == [False, False, True]
    assert not any(found[name].failures for name in ("norm/a", "gone/a", "copy/32m"))


def test_broken_head() -> None:
    """A broken file of the head fails the cases that its text declares, and those that the reference has in it."""
    head = listing("copy/32m", broken=(broken("softmax.py", "softmax/declared"),))
    found = by_name(choose_cases(head, listing("softmax/there", "copy/32m"), []))
    assert list(found) == ["copy/32m", "softmax/there", "softmax/declared"]
    for name in ("softmax/there", "softmax/declared"):
        (failure,) = found[name].failures
        assert (failure.side, failure.stage) == ("head", "import")
        assert failure.message == "softmax.py: ValueError: no such layout"
        assert failure.last_lines == ("a", "b")
        assert found[name].in_head
    assert not found["softmax/declared"].in_reference
    assert not found["copy/32m"].failures


def test_broken_on_both_sides() -> None:
    """A file broken on both sides carries both failures."""
    both = listing(broken=(broken("softmax.py", "softmax/x"),))
    (found,) = choose_cases(both, both, [])
    assert [failure.side for failure in found.failures] == ["head", "reference"]
    assert (found.in_head, found.in_reference) == (True, True)


def test_broken_beyond_recognition() -> None:
    """Where nobody can tell which cases a broken file has, one entry stands for them and can be named."""
    head = listing("copy/32m", broken=(broken("softmax.py"),))
    assert [case.name for case in choose_cases(head, None, [])] == ["copy/32m", "softmax/*"]
    (found,) = choose_cases(head, None, ["softmax"])
    assert found.failures


def test_broken_and_skipped() -> None:
    """A case that is broken in the head is not skipped, whatever the reference says of it."""
    reference = Listing(cases=(listed("softmax/x", skipped="needs triton"),))
    (found,) = choose_cases(listing(broken=(broken("softmax.py"),)), reference, [])
    assert found.skipped is None
    assert [failure.side for failure in found.failures] == ["head"]


def test_a_case_whose_declaration_cannot_work_fails_alone() -> None:
    """On the side that declares it so."""
    fault = "softmax/narrow: the function does not take these parameters"
    head = Listing(cases=(listed("softmax/small"), replace(listed("softmax/narrow"), fault=fault)))
    chosen = by_name(choose_cases(head, listing("softmax/small", "softmax/narrow"), []))
    assert chosen["softmax/small"].failures == ()
    [failure] = chosen["softmax/narrow"].failures
    assert (failure.side, failure.message) == ("head", fault)
