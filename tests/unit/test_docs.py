"""What the documentation names is there: links, files of the package, and the sections that errors send people to."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ratchet.common import installation
from ratchet.core import errors
from ratchet.core.cli import COMMANDS, cli
from ratchet.core.errors import RatchetError, UsageError
from ratchet.core.records.verdict import Outcome
from ratchet.github import errors as github_errors
from ratchet.manual import guide

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


def test_the_pages_stay_few_and_readable() -> None:
    """docs/ has at most 16 pages and 28,000 words, and no line of prose is longer than 100 characters."""
    pages = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")}
    assert len(pages) <= 16
    assert sum(len(text.split()) for text in pages.values()) <= 28_000
    prose = {
        path: re.sub(r"^ *```.*?^ *```|^\|.*?$|^\[[^\]]*\]: .*?$", "", text, flags=re.DOTALL | re.MULTILINE)
        for path, text in pages.items()
    }
    assert [(path.name, line) for path, text in prose.items() for line in text.splitlines() if len(line) > 100] == []


def commands_shown() -> Iterator[tuple[str, list[str]]]:
    """Every `ratchet` command of README.md and docs/ that is typed in a console or stands in a sentence: page → its words."""
    for page in [*ROOT.glob("docs/*.md"), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8").replace("\\\n", "")
        typed = re.findall(r"^ *\$ (ratchet .*?)(?: +#.*)?$", text, re.MULTILINE)
        said = re.findall(r"`(ratchet [^`]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))
        for line in [*typed, *said]:
            yield page.name, shlex.split(" ".join(line.split()).partition(" || ")[0])[1:]


def test_each_command_of_a_page_has_the_options_that_it_shows() -> None:
    """No page shows a command, a second word or an option that ratchet does not have."""
    shown = list(commands_shown())
    assert len(shown) > 100
    wrong = []
    for page, words in shown:
        if words[0].startswith("-") or words[0].isupper():
            continue
        try:
            _, command, rest = cli.resolve_command(click.Context(cli, info_name="ratchet"), words)
        except click.UsageError as error:
            wrong.append((page, words, error.message))
            continue
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "--help-all"}
        ends = (at for at, word in enumerate(rest) if word == "--" or (words[0] == "advise" and word.endswith(".py")))
        own = rest[: next(ends, len(rest))]  # the others are words of a script
        options = [word.partition("=")[0] for word in own if word.startswith("-")]
        wrong += [(page, words, option) for option in options if option not in known]
    assert wrong == []


def test_nobody_is_sent_to_a_stranger_s_package() -> None:
    """The name `ratchet` on the package index is not ours: hints and pages install `gpu-ratchet`, or a path."""
    files = [*PAGES, *ROOT.glob("ratchet/**/*.py"), *ROOT.glob(".github/**/*.yml"), ROOT / "pyproject.toml"]
    wrong = re.compile(r"pip install[^\n`]*(?<![-/.\w])ratchet\b(?!/)|(?<![-/.\w])ratchet\[(?:torch|profile|github|tune|ray|dev)")
    assert [str(path.relative_to(ROOT)) for path in files if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_errors_lead_to_sections() -> None:
    """Each kind of error that names a section names one that `ratchet explain` prints."""
    kinds = [
        kind
        for kind in {**vars(errors), **vars(github_errors)}.values()
        if isinstance(kind, type) and issubclass(kind, RatchetError)
    ]
    named = {kind.section for kind in kinds if kind.section}
    assert len(named) >= 4
    assert named <= {each.anchor for each in guide.sections()}


def test_the_package_has_the_pages_of_docs() -> None:
    """Each page of docs/ is in the package as a link to it: installed, it is the same text."""
    linked = {path.name: path.resolve() for path in guide.PAGES.iterdir()}
    pages = {path.name: path for path in ROOT.glob("docs/*.md")}
    assert linked == pages | {"security.md": ROOT / "SECURITY.md"}


def test_the_image_has_the_pages() -> None:
    """Each page that `ratchet explain` prints is copied into the image, and .containerignore lets it through."""
    copies = [line.split()[1:-1] for line in (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines() if "COPY" in line]
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    for patterns in (list(itertools.chain(*copies)), [line[1:] for line in ignored if line.startswith("!")]):
        for page in guide.PAGES.iterdir():
            assert any(page.resolve().relative_to(ROOT).match(pattern) for pattern in patterns), page


@functools.cache
def messages() -> tuple[tuple[str, str], ...]:
    return tuple(_messages())


def _messages() -> Iterator[tuple[str, str]]:
    """Every text of the package that people may see: place → strings of code, help of commands, and templates."""
    for path in sorted((ROOT / "ratchet").rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        silent = {
            id(node.value)  # docstrings, and those below a name
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    for path in [*(ROOT / "ratchet").glob("*/templates/*"), *(ROOT / "ratchet").glob("*/*/templates/*")]:
        yield str(path.relative_to(ROOT)), re.sub(r"\{#.*?#\}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for path in (ROOT / "ratchet").glob("adopt/workflows/*"):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command
        for inner in (command, *getattr(command, "commands", {}).values()):
            yield f"ratchet {name} {inner.name}", inner.help or ""


def test_no_message_names_a_file_that_its_reader_lacks() -> None:
    """A user has what is installed: no hint names a page, a script or a folder of this repository by its path."""
    ours = {path.name for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md"), *ROOT.glob("*.md")]} - {
        "README.md"
    }
    lacking = re.compile(
        r"(?<![\w/}.])(?:docs|research|tests|scripts|ratchet)/\w[\w./-]*\.(?:md|py|sh)\b"
        rf"|(?<![\w/.-])(?:{'|'.join(map(re.escape, sorted(ours)))})(?![\w.])"
    )
    own = {"tune/templates", "github/templates", "report/templates"}  # parts of a template, by their names
    wrong = [
        (place, found.group())
        for place, text in messages()
        for found in lacking.finditer(text)
        if not (any(folder in place for folder in own) and "include" in text)
    ]
    assert wrong == []


def test_what_hints_explain_is_there() -> None:
    """Each `ratchet explain NAME` in a message prints something."""
    named = {(place, name) for place, text in messages() for name in re.findall(r"ratchet explain ([\w-]+)", text)}
    named = {(place, name) for place, name in named if name not in ("WORD", "PAGE", "SECTION", "NAME")}
    assert len(named) >= 6
    for _, name in named:
        assert len(guide.explain(name)) > 40


def test_what_is_explained_leads_to_commands_and_not_to_files() -> None:
    """No page that is printed has a link: a link is a command, an address of this very version, or its words alone."""
    every = guide.sections()
    commands = set()
    for each in every:
        text = guide.explain(each.anchor)
        assert not re.search(r"\]\((?!https?:)", text), each
        commands |= set(re.findall(r"`ratchet explain ([\w-]+)`", text))
    assert {name for name in commands if name.islower()} <= {each.anchor for each in every}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("INCONCLUSIVE", "pairs scatter"),
        ("identical", "same code on both sides"),
        ("3", "no measurement"),
        ("130", "interrupted"),
        ("MDE", "four times in five"),
        ("ERR_NVGPUCTRPERM", "administrators"),
        ("On-GitHub", "The GPU job waits"),
        ("report#where-it-stands", "One sentence is the verdict"),
        ("host_timeout", "host_timeout"),
    ],
)
def test_words_are_explained(word: str, said: str) -> None:
    """An outcome, an exit code, a figure, an error of a driver and a setting are words that people look up, in any case."""
    assert said in guide.explain(word)


def test_every_outcome_is_explained() -> None:
    """What a report calls a case is in the table of outcomes, which comes with its meaning."""
    for outcome in Outcome:
        assert f"`{outcome}`" in guide.explain(outcome)


def test_a_word_that_no_page_has() -> None:
    """A misspelled word is told what it looks like, and nothing is printed for one that is empty."""
    with pytest.raises(UsageError, match=r"(?i)Did you mean inconclusive\?"):
        guide.explain("inconclusiv")
    with pytest.raises(UsageError, match="lists the pages"):
        guide.explain(" ")


def test_addresses_are_those_of_the_installed_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ratchet was installed from a repository, what it does not have itself is linked at that commit."""
    source = {"url": "https://github.com/octocat/ratchet.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    monkeypatch.setattr(installation, "installed_from", lambda: source)
    monkeypatch.setattr(guide, "installed_from", lambda: source)
    assert f"https://github.com/octocat/ratchet/blob/{'a' * 40}/docs/decisions/0003-rule.md" in guide.explain("trust")
    monkeypatch.setattr(installation, "installed_from", dict)
    assert "decisions/0003-rule.md" not in guide.explain("trust")


def test_each_of_the_ten_questions_is_answered_where_it_says() -> None:
    """The commands and words of an answer stand on the page that it links to, below the heading that it names."""
    index = ROOT / "README.md"
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
