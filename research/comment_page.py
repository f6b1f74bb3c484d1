"""The comment under a pull request as a person sees it: Markdown, rendered as GitHub does, photographed by Chromium.

``python research/comment_page.py docs/examples/comment`` writes the Markdown of a red comment and its pictures: on a desktop,
on a phone of 390 pixels, and with its folds open. With names of recorded runs (tests/data/runs) after the folder it photographs
those, on both. Needs ``chromium`` and a font with emoji; says which parts of a page scroll sideways.
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

from PIL import Image, ImageChops

from ratchet.core.records.files import save_bytes, save_text
from ratchet.github.comment import CommentPage, render_comment
from tests.recorded_runs import recorded
from tests.rendered import html_of

STYLE = """
* { box-sizing: border-box }
body { margin: 0; background: #f6f8fa; color: #1f2328 }
body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
.page { padding: 16px }
.comment { border: 1px solid #d1d9e0; border-radius: 6px; background: #fff }
.by { padding: 8px 16px; border-bottom: 1px solid #d1d9e0; background: #f6f8fa; color: #59636e }
.by b { color: #1f2328 }
.body { padding: 16px; overflow-wrap: break-word }
h3 { font-size: 1.25em; line-height: 1.25; margin: 0 0 16px } h4 { font-size: 1em; line-height: 1.25; margin: 24px 0 16px }
p, ul, ol, table, blockquote, pre, details { margin: 0 0 16px }
table { border-collapse: collapse; display: block; overflow: auto; width: max-content; max-width: 100% }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0 } tr:nth-child(2n) { background: #f6f8fa }
code, pre { font: 12px ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace; background: #818b981f; border-radius: 6px }
code { padding: .2em .4em; white-space: break-spaces }
pre { padding: 16px; line-height: 1.45; background: #f6f8fa; overflow: auto }
pre code { padding: 0; background: none; white-space: pre }
blockquote { padding: 0 1em; color: #59636e; border-left: .25em solid #d1d9e0 } blockquote > :last-child { margin-bottom: 0 }
a { color: #0969da; text-decoration: none } ul, ol { padding-left: 2em } li + li { margin-top: .25em }
"""
WIDTHS = {"desktop": 920, "phone": 390}
"""Pixels of a page: a comment on github.com in a window of 1,280, and on a phone."""
TALLEST = 9000


def main(folder: Path, *scenes: str) -> None:
    if scenes:
        for scene in scenes:
            page: CommentPage = recorded(scene).comment_page
            for device, width in WIDTHS.items():
                save_bytes(folder / f"{scene}_{device}.png", photographed(html_of(render_comment(page)), width))
        return
    body = render_comment(recorded("h200_red").comment_page)
    closed = html_of(body)
    save_text(folder / "comment.md", body)
    save_bytes(folder / "comment.png", photographed(closed, WIDTHS["desktop"]))
    save_bytes(folder / "comment_phone.png", photographed(closed, WIDTHS["phone"]))
    save_bytes(folder / "comment_open.png", photographed(closed.replace("<details>", "<details open>"), WIDTHS["desktop"]))


def photographed(html: str, width: int) -> bytes:
    """A picture of the comment, this many pixels wide and as tall as it is."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("There is no chromium here.")
    with tempfile.TemporaryDirectory() as place:
        page, picture = Path(place, "page.html"), Path(place, "page.png")
        by = '<div class="by"><b>github-actions</b> bot commented</div>'
        head = f'<!doctype html><meta charset="utf-8"><style>{STYLE} .page {{ width: {width}px }}</style>'
        comment = f'<div class="comment">{by}<div class="body">{html}</div></div>'
        page.write_text(f'{head}<div class="page">{comment}</div>{SIDEWAYS}', encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
        options += [f"--user-data-dir={place}/profile", f"--window-size={max(width, 500)},{TALLEST}"]
        run = [chromium, *options, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(run, check=True, capture_output=True, timeout=120)
        dumped = subprocess.run(
            [chromium, *options, "--dump-dom", page.as_uri()], check=True, capture_output=True, text=True, timeout=120
        )
        for wide in re.findall(r'data-sideways="([^"]*)"', dumped.stdout):
            print(f"{width} px: scrolls sideways: {wide}")
        with Image.open(picture) as taken:
            shown = taken.convert("RGB").crop((0, 0, width, TALLEST))
        blank = Image.new("RGB", shown.size, shown.getpixel((0, TALLEST - 1)))
        _, _, _, bottom = ImageChops.difference(shown, blank).getbbox() or (0, 0, 0, TALLEST)
        small = io.BytesIO()
        cropped = shown.crop((0, 0, width, min(bottom + 16, TALLEST)))
        cropped.quantize(256, Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
        return small.getvalue()


SIDEWAYS = """<script>
for (const e of document.querySelectorAll(".body *"))
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).display != "inline")
    e.dataset.sideways = e.tagName + " " + e.scrollWidth + " > " + e.clientWidth + ": " + e.innerText.slice(0, 40);
</script>"""
"""Marks each part that is wider than its place."""


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
