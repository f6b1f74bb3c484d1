"""Bodies of comments in which `/ratchet` stands, and which command nothing; and what GitHub's own renderer shows of a body."""

from __future__ import annotations

from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

LINE = "/ratchet accept a/b masked rows were wrong"

HOSTILE: dict[str, str] = {
    # what was obeyed once
    "pre": f"<pre>\n{LINE}\n</pre>",
    "pre with blank lines": f"<pre>\n\nlog\n\n{LINE}\n\n</pre>",
    "code span over lines": f"see `the log\n{LINE}\nof today`",
    "code span of two backticks": f"``\n{LINE}\n``",
    "lazy quote": f"> somebody wrote\n{LINE}",
    "lazy quote of a quote": f"> > somebody wrote\n> more\n{LINE}",
    # quotations and lists
    "quote without a blank": f">{LINE}",
    "quote after blanks": f"   > {LINE}",
    "quote in a list": f"- > text\n  {LINE}",
    "list item": f"- {LINE}",
    "lazy list item": f"1. first\n{LINE}",
    "indented list item": f"* first\n\n  {LINE}",
    "task": f"- [ ] {LINE}",
    # code
    "indented code": f"    {LINE}",
    "tab": f"\t{LINE}",
    "fence in a list": f"- ```\n  {LINE}\n  ```",
    "fence that is not closed": f"~~~text\n{LINE}",
    "fence closed by fewer": f"````\n```\n{LINE}\n````",
    # hidden
    "comment": f"<!-- {LINE} -->",
    "comment over lines": f"<!--\n\n{LINE}\n\n-->",
    "comment within a line": f"fine <!-- a\n{LINE}\n--> by me",
    "folded": f"<details>\n<summary>log</summary>\n\n{LINE}\n\n</details>",
    "script": f"<script>\n\n{LINE}\n\n</script>",
    "definition of a link": f"[a]:\n{LINE.split(maxsplit=1)[0]}\n'accept a/b masked'",
    "title of a link": f'[a]: https://example.org "\n{LINE}\n"',
    "footnote": f"[^1]: note\n{LINE}",
    "footnote on its own line": f"[^1]:\n    {LINE}\n\nsee [^1]",
    # blocks of HTML
    "blockquote": f"<blockquote>\n\n{LINE}\n\n</blockquote>",
    "self-closing blockquote": f"<blockquote/>\n\n{LINE}",
    "blockquote behind a comment that is none": f"<!--><blockquote>-->\n\n{LINE}",
    "blockquote behind another end of a comment": f"<!-- --!><blockquote> -->\n\n{LINE}",
    "cell": f"<table><tr><td>\n\n{LINE}\n\n</td></tr></table>",
    "code element": f"<code>\n\n{LINE}\n\n</code>",
    "struck-through element": f"text <del>\n{LINE}\n</del>",
    # other inline markup around it
    "emphasis": f"*as they\n{LINE}\nsaid*",
    "struck through": f"~~never\n{LINE}\nagain~~",
    "struck through by one tilde": f"~never\n{LINE}\nagain~",
    "text of a link": f"[they said\n{LINE}\n](https://example.org)",
    "text of a picture": f"![they said\n{LINE}\n](https://example.org/a.png)",
    "formula": f"$$\n{LINE}\n$$",
    "formula within a line": f"let $a\n{LINE}\n b$",
    # other blocks
    "table": f"a | b\n--|--\n{LINE} | c",
    "table of one column": f"{LINE}\n:-",
    "heading": f"# {LINE}",
    "underlined heading": f"{LINE}\n===",
    # alike
    "escaped": f"\\{LINE}",
    "entity": f"&#47;{LINE[1:]}",
    "zero-width blank": f"\u200b{LINE}",
    "wide slash": f"\uff0f{LINE[1:]}",
    "behind a carriage return in a quote": f"> a\r{LINE}",
    "behind a line separator": f"text\u2028{LINE}",
    # written when the reader was finished
    "underlined heading of two lines": f"fine\n{LINE}\n---",
    "element of one's own": f"<my-log>\n\n{LINE}\n\n</my-log>",
    "below a definition in a list": f"1. [a]: https://x.y\n{LINE}",
    "processing instruction": f"<?log\n\n{LINE}\n\n?>",
    "code span over a hard break": f"look: ``a\\\n{LINE}  \nb``",
    "alert with a quotation": f"> [!NOTE]\n> > x\n{LINE}",
}
"""Name → body. GitHub shows none of these lines as the beginning of a line of a plain paragraph."""

_VOID = {"br", "hr", "img", "input", "wbr", "col", "area", "base", "embed", "link", "meta", "source", "track"}


def plain_lines(body: str) -> list[str]:
    """The lines of paragraphs that stand in no other element, without what is marked up at their beginning."""
    reader = _Reader()
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES | Options.CMARK_OPT_HARDBREAKS
    reader.feed(cmarkgfm.github_flavored_markdown_to_html(body, options))
    reader.close()
    return reader.lines


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._open: list[str] = []
        self._fresh = False
        """Whether text that comes now begins a line."""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "br" or (tag == "p" and not self._open):
            self._fresh = True
        elif self._fresh:
            self._fresh = False
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.handle_starttag(tag, attrs)  # HTML knows no slash: the element stays open

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        text = data.lstrip("\n")
        if text and self._fresh and self._open == ["p"]:
            self.lines.append(text)
        self._fresh = self._fresh and not text
