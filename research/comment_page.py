"""The comment under a pull request as a person sees it: Markdown, rendered as GitHub does, photographed by Chromium.

``python research/comment_page.py docs/examples/comment`` writes the Markdown of a red comment and one picture with its
folds closed, one with three of them open. Needs ``chromium``.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the scenes of its tests

from PIL import Image

from ratchet.records.files import save_bytes, save_text
from ratchet.report.comment import render_comment
from tests import pages
from tests.rendered import html_of

STYLE = """
body { margin: 24px; background: #f6f8fa; color: #1f2328 }
body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
.comment { max-width: 860px; border: 1px solid #d1d9e0; border-radius: 6px; background: #fff }
.by { padding: 8px 16px; border-bottom: 1px solid #d1d9e0; background: #f6f8fa; color: #59636e }
.by b { color: #1f2328 }
.body { padding: 16px }
h3 { font-size: 1.25em; margin: 0 0 16px } h4 { font-size: 1em; margin: 24px 0 16px }
p, ul, ol, table, blockquote, pre, details { margin: 0 0 16px }
table { border-collapse: collapse; display: block; overflow: auto }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0 } tr:nth-child(2n) { background: #f6f8fa }
code, pre { font: 12px ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace; background: #818b981f; border-radius: 6px }
code { padding: .2em .4em } pre { padding: 16px; line-height: 1.3; background: #f6f8fa; overflow: auto }
pre code { padding: 0; background: none }
blockquote { padding: 0 1em; color: #59636e; border-left: .25em solid #d1d9e0 }
a { color: #0969da } ul, ol { padding-left: 2em }
"""
OPENED = ("Changes at a glance", "Why: what the profiles show", "Measure it again")


def main(folder: Path) -> None:
    body = render_comment(pages.red())
    save_text(folder / "comment.md", body)
    closed = html_of(body)
    opened = closed
    for summary in OPENED:
        opened = re.sub(rf"<details>(\s*<summary>{re.escape(summary)})", r"<details open>\1", opened)
    save_bytes(folder / "comment.png", photographed(closed, 960))
    save_bytes(folder / "comment_open.png", photographed(opened, 2200))


def photographed(html: str, height: int) -> bytes:
    """A picture of the comment, 920 pixels wide."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("There is no chromium here.")
    with tempfile.TemporaryDirectory() as place:
        page, picture = Path(place, "page.html"), Path(place, "page.png")
        by = '<div class="by"><b>github-actions</b> bot commented</div>'
        head = f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>'
        page.write_text(f'{head}<div class="comment">{by}<div class="body">{html}</div></div>', encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
        options += [f"--user-data-dir={place}/profile", f"--window-size=920,{height}", f"--screenshot={picture}"]
        subprocess.run([chromium, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
        with Image.open(picture) as taken:
            small = io.BytesIO()
            taken.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
        return small.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
