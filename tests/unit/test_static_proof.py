"""What the trusted job sees itself of a verdict without a GPU: trees of GitHub as text, and digests against the record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.config import Settings
from ratchet.core.errors import RecordError
from ratchet.core.records.files import save
from ratchet.core.records.run import SIDES, Tree
from ratchet.github import static_proof
from ratchet.github.artifact import Intake
from ratchet.github.client import GitHub
from ratchet.github.errors import ArtifactError
from ratchet.github.records import TreeEntry
from ratchet.github.state import PublishedState
from ratchet.github.static_proof import with_proofs
from ratchet.identical.footprint import Footprint, Touch
from ratchet.identical.static.records import (
    CompiledCode,
    Instructions,
    Kernel,
    KernelChange,
    Recompiled,
    Recorded,
    RecordedCase,
    StaticCase,
    StaticReport,
)
from ratchet.identical.static.verdicts import tree_difference
from tests import examples
from tests.fake_github import FakeGitHub
from tests.integration.playground import commit, git, new_repository

KIT = "def used():\n    return 1\n\n\ndef kernel(x):\n    return x\n"
FILES = {"kit/ops.py": KIT, "bench/a.py": "A = 1\n", "README.md": "a\n", "data/table.txt": "1\n", "kit/deep/b.py": "B = 1\n"}
CHANGES: dict[str, dict[str, str]] = {
    "a body": {"kit/ops.py": KIT.replace("return 1", "return 2")},
    "a file of data": {"data/table.txt": "2\n"},
    "a new file": {"kit/deep/more.py": "C = 1\n"},
    "a new folder": {"other/deep/more.md": "C\n"},
    "a benchmark": {"bench/b.py": "B = 1\n"},
    "settings": {"pyproject.toml": "[tool.ratchet]\npairs = 3\n"},
}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository whose first commit is the recorded one."""
    new_repository(tmp_path / "origin", FILES)
    return tmp_path / "origin"


@pytest.fixture
def github(origin: Path) -> Iterator[GitHub]:
    with FakeGitHub() as fake:
        fake.state.origin = origin
        yield GitHub(fake.token, f"{fake.url}/", fake.state.repository)


def tip(origin: Path) -> str:
    return git(origin, "rev-parse", "HEAD")


@pytest.mark.parametrize("change", [*CHANGES, "gone", "a mode", "a link", "a folder for a file"])
def test_trees_of_github_differ_as_the_whole_ones(origin: Path, github: GitHub, tmp_path: Path, change: str) -> None:
    """Of two commits that are fetched in part, the difference is that of their whole trees."""
    before = tip(origin)
    if change == "gone":
        git(origin, "rm", "--quiet", "-r", "kit/deep")
    elif change == "a mode":
        (origin / "kit/ops.py").chmod(0o755)
    elif change == "a link":
        (origin / "README.md").unlink()
        (origin / "README.md").symlink_to("/etc/passwd")
    elif change == "a folder for a file":
        git(origin, "rm", "--quiet", "README.md")
        (origin / "README.md").mkdir()
        (origin / "README.md" / "x.py").write_text("")
    commit(origin, "change", CHANGES.get(change, {}))
    after = tip(origin)
    for name, at in (("base", before), ("head", after)):
        git(origin, "worktree", "add", "--quiet", str(tmp_path / "whole" / name), at)
    static_proof.DifferingTrees(github, {"base": before, "head": after}, tmp_path / "part").write()
    whole, part = (
        tree_difference(tmp_path / kind / "base", tmp_path / kind / "head", "bench", "results") for kind in ("whole", "part")
    )
    assert part == whole
    assert whole.paths or whole.counted


@pytest.mark.parametrize("name", ["..", ".git", ".", ""])
def test_no_name_of_a_tree_leads_out(github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What GitHub says of a tree is written below the folder that was named, or not at all."""
    entries = {"a" * 40: {name: TreeEntry("100644", "c" * 40)}, "b" * 40: {}}
    monkeypatch.setattr(github, "entries", entries.get)
    with pytest.raises(ArtifactError):
        static_proof.DifferingTrees(github, {"base": "a" * 40, "head": "b" * 40}, tmp_path / "x").write()


# Claims of the job without a GPU.

CODE = CompiledCode(code="1" * 64, launch="2" * 64, registers=8, spills=0, shared=0, code_size=128)
OTHER = CODE.model_copy(update={"code": "3" * 64})
USES, COMPILES, NEITHER = "a/uses", "a/compiles", "a/neither"


def record(origin: Path) -> Recorded:
    """Three cases: one runs a function of the kit, one compiles its kernel, one touches nothing of it."""
    imported = {Touch("imported", "kit/ops.py"), Touch("imported", "bench/a.py")}
    cases = {
        USES: RecordedCase(touched=Footprint.of({Touch("ran", "kit/ops.py", "used")})),
        COMPILES: RecordedCase(touched=Footprint.of({Touch("kernel", "kit/ops.py", "kernel")}), kernels=(0,)),
        NEITHER: RecordedCase(),
    }
    kernel = Kernel(file="kit/ops.py", function="kernel", module="kit.ops", source="{}", compiled=CODE)
    run = examples.run_of(examples.compared(1.0), head=Tree(commit=tip(origin)))
    tree = Tree(commit=tip(origin), content="x")
    return Recorded(
        tree=tree, environment=run.environment, plan=run.plan, imported=Footprint.of(imported), kernels=(kernel,), cases=cases
    )


def claimed(reference: str, head: str, code: CompiledCode | None, **more: Any) -> StaticReport:
    """The report of a job that says that every case is identical, and what the kernel compiles to."""
    made = Recompiled(code=code, instructions=Instructions(of="PTX", counts={})) if code else None
    change = KernelChange(kernel="k", reference=made and made.model_copy(update={"code": CODE}), head=made, same=True)
    cases = (
        StaticCase(name=USES, identical=True),
        StaticCase(name=COMPILES, identical=True, kernels=(change,) if code else ()),
        StaticCase(name=NEITHER, identical=True),
        StaticCase(name="a/invented", identical=True),
    )
    trees = {"reference": Tree(commit=reference), "head": Tree(commit=head), "recorded": Tree(commit=head)}
    return StaticReport(**(trees | {"machine": "x", "cases": cases, "seconds": 1} | more))


@pytest.fixture
def reference(origin: Path) -> str:
    """The commit that brought the record."""
    save(origin / "results" / "static.json", record(origin))
    git(origin, "add", "--force", "results/static.json")
    return commit(origin, "record", {})


def judged(
    folder: Path, report: StaticReport | None, head: str, github: GitHub, settings: Settings, measured: Intake | None = None
) -> tuple[Intake, Any]:
    (folder / "artifact").mkdir()
    if report:
        save(folder / "artifact" / "static_report.json", report)
    (folder / "space").mkdir()
    return with_proofs(folder / "artifact", measured, head, settings, github, folder / "space")


KERNEL = {"kit/ops.py": KIT.replace("    return x\n", "    y = x\n    return y\n")}
USED = {"kit/ops.py": KIT.replace("return 1", "return 2")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "code", "needed"),
    [
        ({"README.md": "b\n"}, None, []),
        (KERNEL, CODE, []),
        (KERNEL, OTHER, [COMPILES]),
        (KERNEL, None, [COMPILES]),
        (USED, CODE, [USES]),
        ({"kit/ops.py": KIT + "A = 1\n"}, CODE, [USES, COMPILES, NEITHER]),
        ({"bench/b.py": "B = 1\n"}, CODE, [USES, COMPILES, NEITHER]),
    ],
    ids=["a word", "the same code", "other code", "no code", "a function", "a constant", "a benchmark"],
)
def test_the_job_s_word_decides_what_kernels_compile_to_and_no_more(
    origin: Path,
    reference: str,
    github: GitHub,
    tmp_path: Path,
    files: dict[str, str],
    code: CompiledCode | None,
    needed: list[str],
) -> None:
    """A job that calls every case identical is believed for none that touches what differs, nor without the recorded code."""
    head = commit(origin, "change", files)
    report = claimed(reference, head, code)
    if needed:
        with pytest.raises(ArtifactError, match=r"needed for .*"):
            judged(tmp_path, report, head, github, Settings())
        return
    intake, gaps = judged(tmp_path, report, head, github, Settings())
    assert not gaps
    assert (
        {case.name for case in intake.run.cases if case.identical}
        == {USES, COMPILES, NEITHER}
        == {case.name for case in intake.run.cases}
    )
    assert intake.run.environment == record(origin).environment
    digests = {case.name: len(case.identity) for case in intake.run.cases}
    assert digests[COMPILES] == (len(SIDES) if code else 0)


def test_what_is_neither_measured_nor_proved_is_no_pass(origin: Path, reference: str, github: GitHub, tmp_path: Path) -> None:
    """Beside the measured cases stand those that are proved; one that is neither keeps the run from a pass."""
    head = commit(origin, "change", {**USED, "kit/ops.py": KERNEL["kit/ops.py"].replace("return 1", "return 2")})
    of_gpu = examples.run_of(examples.compared(1.0, name=USES), head=Tree(commit=head), reference=Tree(commit=reference))
    intake, gaps = judged(tmp_path, claimed(reference, head, None), head, github, Settings(), Intake(of_gpu))
    assert [case.name for case in intake.run.cases] == [USES, NEITHER]
    [gap] = gaps
    assert (gap.state, gap.left_out) == (PublishedState.LEFT_OUT, 1)
    assert COMPILES in gap.sentence


@pytest.mark.parametrize("why", ["nothing", "another head", "another reference", "no commit", "a build", "no record"])
def test_a_report_that_proves_nothing(origin: Path, reference: str, github: GitHub, tmp_path: Path, why: str) -> None:
    """It gives no verdict by itself, and keeps measurements beside it, which may be of a part of the cases, from a pass."""
    head = commit(origin, "change", {"README.md": "b\n"})
    other = git(origin, "rev-parse", f"{reference}~1")
    said = {"another reference": other, "no record": other, "no commit": "../../x"}.get(why, reference)
    report = None if why == "nothing" else claimed(said, other if why == "another head" else head, CODE)
    settings = Settings(build="make") if why == "a build" else Settings()
    measured = examples.run_of(
        examples.compared(1.0, name=USES),
        head=Tree(commit=head),
        reference=Tree(commit=other if why == "no record" else reference),
    )
    intake, gaps = judged(tmp_path, report, head, github, settings, Intake(measured))
    assert intake.run == measured
    [gap] = gaps
    assert gap.state is PublishedState.LEFT_OUT
    assert gap.sentence.startswith("Nothing was proved without a GPU: ")
    if why != "another reference":
        again = tmp_path / "again"
        again.mkdir()
        with pytest.raises(ArtifactError):
            judged(again, report, head, github, settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    ["(" * 100_000, "-" * 1_000_000 + "1", "x = " + "+".join(["1"] * 400_000), "x" * 3_000_000, "[" + "1," * 500_000 + "]", "\0"],
    ids=["open", "signs", "a sum", "large", "a list", "no text"],
)
def test_source_that_breaks_a_parser_proves_nothing(
    origin: Path, reference: str, github: GitHub, tmp_path: Path, source: str
) -> None:
    """A file of a stranger that no parser can take ends a child at worst, and its case is measured."""
    head = commit(origin, "change", {"kit/ops.py": source})
    with pytest.raises((ArtifactError, RecordError), match=r"needed for|cannot be read in"):
        judged(tmp_path, claimed(reference, head, CODE), head, github, Settings())
