"""Find what `ratchet explain` prints: a page of the documentation, one of its sections, or the sentences about a word.

The pages are those in docs/ of the repository: ``pages/`` has links to them, which become files where ratchet is installed, so
what is printed is always of the ratchet that runs. Messages name a page or a section of them by `ratchet explain NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ratchet.common.installation import installed_commit, installed_from
from ratchet.core.errors import UsageError
from ratchet.core.units import did_you_mean, listed

PAGES = Path(__file__).parent / "pages"
_FIRST = ("troubleshooting", "report", "using")
"""Pages that are looked through before the others, since they are for people with a question."""
_MOST = 6
"""Places that are printed about one word."""
_HEADING = re.compile(r"(#+) (.*)")
_LEAD = re.compile(r"[-|*\s]*((?:(?:`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)[,\s]*)+)")
"""The terms in code, bold or italics with which a list item or a row of a table begins: what it is about."""
_TERM = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*")
_LINK = re.compile(r"!?\[([^\]]+)\]\(([^)\s]+)\)", re.DOTALL)
_RULE = re.compile(r"\|[:|\s-]+\|")
"""The line below the head of a table."""


@dataclass(frozen=True)
class PageSection:
    """A heading of a page with all that stands below it, its own sections included."""

    page: str
    title: str
    anchor: str
    """As GitHub makes it of the title; the first one of a page has the name of the page."""
    text: str


@cache
def sections() -> tuple[PageSection, ...]:
    """Return all sections of all pages."""
    names = sorted((path.stem for path in PAGES.glob("*.md")), key=lambda name: (name not in _FIRST, name))
    return tuple(each for name in names for each in _sections(name, (PAGES / f"{name}.md").read_text(encoding="utf-8")))


def explain(word: str) -> str:
    """Return Markdown about a page, a section, or any word. Raises UsageError where no page has it."""
    every = sections()
    name = word.strip().lower()
    blocks = [(each, block) for each in every for block in _blocks(each)]
    about = [(each, block) for each, block in blocks if name in _terms(block)]
    for each in every:
        names = (each.anchor, f"{each.page}#{each.anchor}", each.title.lower())
        if word in names or (name in names and not about):
            return _in_terminal(each.text)
    whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    about = about or [(each, block) for each, block in blocks if name and whole.search(block)]
    if not about:
        known = sorted({each.anchor for each in every} | {term for _, block in blocks for term in _terms(block)})
        raise UsageError(f"No page has “{word}”.", f"{did_you_mean(name, known)} `ratchet explain` lists the pages.".strip())
    shown = [f"{block}\n\n*{each.page}: {each.title}* (`ratchet explain {each.anchor}`)" for each, block in about[:_MOST]]
    more = sorted({each.anchor for each, _ in about[_MOST:]})
    rest = [f"Also in {listed([f'`ratchet explain {anchor}`' for anchor in more])}."] if more else []
    return _in_terminal("\n\n".join([*shown, *rest]))


def contents() -> str:
    """Return the names of all pages with their titles, as Markdown."""
    titles = [f"- `{page}`: {title}" for page, title in {each.page: each.title for each in reversed(sections())}.items()][::-1]
    return "\n".join([*titles, "", "`ratchet explain NAME` prints one, and `ratchet explain WORD` what they have about a word."])


def web_page(path: str) -> str:
    """Return the address of a file of this very commit of ratchet; empty where it was not installed from a repository."""
    about = installed_from()
    url = re.sub(r"(\.git)?/*$", "", str(about.get("url", "")))
    return f"{url}/blob/{installed_commit()}/{path}" if url.startswith("https://") and installed_commit() else ""


def _sections(page: str, text: str) -> Iterator[PageSection]:
    lines, fenced = text.splitlines(), False
    heads: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        if not fenced and (heading := _HEADING.fullmatch(line)):
            heads.append((number, len(heading[1]), heading[2]))
    for at, (start, level, title) in enumerate(heads):
        end = next((number for number, deep, _ in heads[at + 1 :] if deep <= level), len(lines))
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") if at else page
        yield PageSection(page, title, anchor, "\n".join(lines[start:end]).strip())


def _blocks(section: PageSection) -> Iterator[str]:
    """Yield the list items, paragraphs and rows of tables that stand in a section before its first own section."""
    own = re.split(r"^#+ ", section.text.partition("\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    for fence in re.findall(r"^```.*?^```", own, re.DOTALL | re.MULTILINE):
        yield from (f"```toml\n{line}\n```" for line in fence.splitlines() if " = " in line and "#" in line)  # a setting
    own = re.sub(r"^```.*?^```", "", own, flags=re.DOTALL | re.MULTILINE)
    for part in re.split(r"\n\s*\n", own):
        lines = part.strip().splitlines()
        if len(lines) > 1 and _RULE.fullmatch(lines[1]):
            yield from ("\n".join([*lines[:2], row]) for row in lines[2:])
        elif lines:
            yield from (item.strip() for item in re.split(r"^(?=- )", "\n".join(lines), flags=re.MULTILINE) if item.strip())


def _terms(block: str) -> set[str]:
    """Return the terms, in small letters, that a block begins with."""
    lines = block.splitlines()
    lead = _LEAD.match("\n".join(lines[2:]) if len(lines) > 2 and _RULE.fullmatch(lines[1]) else block)
    return {"".join(term).lower() for term in _TERM.findall(lead[1])} if lead else set()


def _in_terminal(text: str) -> str:
    """Replace links, which lead to files that the reader does not have, by commands and by addresses of this version."""
    names = {each.name for each in PAGES.glob("*.md")}

    def shown(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        path, _, anchor = target.partition("#")
        if "://" in target:
            return f"{words} ({target})"
        if not path or path in names:
            return f"{words} (`ratchet explain {anchor or path.removesuffix('.md')}`)"
        address = web_page(f"docs/{path}".replace("docs/../", ""))
        return f"{words} ({address})" if address else words

    return _LINK.sub(shown, text)
