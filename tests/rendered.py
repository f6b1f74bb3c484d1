"""Markdown as GitHub renders it, and what must never be in it."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

OURS = frozenset({"details", "summary"})
"""Tags that our templates write as HTML."""
MADE = frozenset(
    "table thead tbody tr th td ul ol li p h3 h4 strong em pre code br hr a blockquote wbr".split()  # noqa: SIM905 - a list of words
)
"""Tags that Markdown of ours becomes."""
_LIVE = re.compile(r"(?<![\w&])@[A-Za-z0-9]|(?<![\w&/])#\d|\bgh-\d|https?://|www\.\w|mailto:\w", re.IGNORECASE)
"""Mentions, issues and addresses that GitHub would make live in the text of a page."""


class Page(HTMLParser):
    """Tags, links and texts of a rendered page."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.closed: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._code = 0
        self.feed(html_of(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._code += tag in ("code", "pre")
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")
        self.closed.append(tag)

    def handle_data(self, data: str) -> None:
        if not self._code:  # GitHub makes nothing live in code
            self.texts.append(data)


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def html_of(markdown: str) -> str:
    """As in a comment: line breaks count, HTML is let through (GitHub's own filter comes later and is not relied on)."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_HARDBREAKS
    return str(cmarkgfm.github_flavored_markdown_to_html(markdown, options=options))


def faults(markdown: str, links: tuple[str, ...] = ()) -> list[str]:
    """What a hostile text managed: a tag, an attribute, a link, a mention, an issue. Empty: nothing."""
    return list(_faults(markdown, links))


@functools.lru_cache(maxsize=256)  # of all that is refused, many say the same
def _faults(markdown: str, links: tuple[str, ...]) -> list[str]:
    page = Page(markdown)
    found = [f"tag {tag}" for tag in page.tags if tag not in OURS | MADE]
    found += [f"attribute {name}" for name in page.attributes - {"href", "align", "start", "lang", "class"}]
    found += [f"link {link}" for link in page.links if link not in links]
    found += [f"live {live[0]!r} in {text!r}" for text in page.texts for live in [_LIVE.search(text)] if live]
    balanced = all(page.tags.count(tag) == page.closed.count(tag) for tag in OURS)
    return found if balanced else [*found, "a fold that is left open"]
