"""What the documentation names is there: links, files of the package, and the sections that errors send people to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ratchet.core import errors
from ratchet.core.errors import RatchetError

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def sections(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file of this repository names one that is there, and a heading that it has."""
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if "://" in link or not target.is_relative_to(ROOT):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in sections(target)):
            broken.append(link)
    assert broken == []


def test_the_architecture_names_files_that_are_there() -> None:
    """Every file and folder that docs/architecture.md sends people to exists in the package."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)", page)
    assert len(named) > 40
    missing = [name for name in named if not (ROOT / "ratchet" / name).exists() and not (ROOT / name).exists()]
    assert missing == []


def test_nobody_is_sent_to_a_stranger_s_package() -> None:
    """The name `ratchet` on the package index is not ours: hints and pages install `gpu-ratchet`, or a path."""
    files = [*PAGES, *ROOT.glob("ratchet/**/*.py"), *ROOT.glob(".github/**/*.yml"), ROOT / "pyproject.toml"]
    wrong = re.compile(r"pip install[^\n`]*(?<![-/.\w])ratchet\b(?!/)|(?<![-/.\w])ratchet\[(?:torch|profile|github|tune|ray|dev)")
    assert [str(path.relative_to(ROOT)) for path in files if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_errors_lead_to_sections() -> None:
    """Each kind of error that names a section of docs/troubleshooting.md names one that is there."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RatchetError)]
    named = {kind.section for kind in kinds if kind.section}
    assert len(named) >= 4
    assert named <= sections(ROOT / "docs" / "troubleshooting.md")


def test_each_of_the_ten_questions_is_answered_where_it_says() -> None:
    """The commands and words of an answer stand on the page that it links to, below the heading that it names."""
    index = ROOT / "docs" / "README.md"
    rows = re.findall(r"^\| ([^|]*?) \| ([^|]*?) \| \[[^]]*\]\(([^)]*)\) \|$", index.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 10
    for question, answer, link in rows:
        place, _, anchor = link.partition("#")
        page = (index.parent / place).resolve().read_text(encoding="utf-8")
        assert not anchor or anchor in sections((index.parent / place).resolve()), question
        for words in re.findall(r"`([^`]+)`", f"{question} {answer}"):
            first = words.partition(" CASE")[0].partition(" …")[0]
            assert first in page, f"{question}: {first} is not on {place}"


def test_every_row_of_the_audit_has_its_line_where_it_says() -> None:
    """research/seeds.md counts its rows; the line of each stands in the file that it links to, so no row is merely claimed."""
    page = ROOT / "research" / "seeds.md"
    rows = re.findall(
        r"^\| (\d+) \| .* \| (.*) \| (`+)(.*)\3 \| \[[^]]*\]\(([^)]*)\) \|$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 80
    for number, command, _, line, link in rows:
        text = (page.parent / link).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
        assert command
        assert line.strip().replace("\\|", "|").replace("⇥", "\t") in text, f"row {number}: {line} is not in {link}"
