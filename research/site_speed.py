"""How large the pages of `ratchet history --html` are and how soon they show, with 50 cases × 1,000 runs, in headless Chromium.

``python research/site_speed.py`` prints a table; with ``--pictures docs/examples/site`` it writes pictures of pages there, too.
Needs ``chromium``. The history is generated (tests/site_examples.py).
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # the scenes of its tests

from PIL import Image

from ratchet.core.records.files import save_bytes
from ratchet.history.site import write_site
from tests import site_examples as scenes
from tests.browser import Tab, browser

LOADS = 5
SLOWER = 4
"""How many times slower than this machine's CPU a phone's is taken to be."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, browser() as tab:
        folder = Path(temporary)
        history = scenes.write(folder / "history", scenes.runs(options.runs, scenes.names(options.cases)))
        begin = time.perf_counter()
        write_site(history, folder / "site", "octocat/kernels", "https://github.com/octocat/kernels")
        size = sum(path.stat().st_size for path in (folder / "site").rglob("*") if path.is_file())
        took = time.perf_counter() - begin
        print(f"{options.cases} cases x {options.runs:,} runs: written in {took:.1f} s, {size / 2**20:.0f} MiB")
        pages = {
            "overview": folder / "site" / "index.html",
            "case": next((folder / "site" / "case").glob("attention-prefill-2k-*.html")),
            "run": max((folder / "site" / "run").iterdir()),
        }
        print("| page | KB | first paint, ms | loaded, ms | with a slower CPU, ms | loaded, ms |\n|:--|--:|--:|--:|--:|--:|")
        for name, page in pages.items():
            figures = [figure for slower in (1, SLOWER) for figure in timed(tab, page, slower)]
            print(f"| {name} | {page.stat().st_size / 1e3:.0f} | {' | '.join(f'{figure:.0f}' for figure in figures)} |")
        if options.pictures:
            tab.call("Emulation.setCPUThrottlingRate", rate=1)
            for name, page, width, height, dark in (
                ("overview", pages["overview"], 1100, 640, False),
                ("case_dark", pages["case"], 1100, 900, True),
                ("overview_phone_dark", pages["overview"], 390, 800, True),
                ("case_phone", pages["case"], 390, 800, False),
            ):
                tab.resize(width, height, dark=dark)
                tab.open(page.as_uri())
                save_bytes(options.pictures / f"{name}.png", in_few_colours(tab.photograph()))


def in_few_colours(picture: bytes) -> bytes:
    """Return a PNG with 128 colours, a third as large."""
    small = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as taken:
        taken.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
    return small.getvalue()


def timed(tab: Tab, page: Path, slower: int) -> tuple[float, float]:
    """Medians over loads without a cache: when something shows first, and when all scripts have run, in milliseconds."""
    tab.resize(1280, 900)
    tab.call("Network.enable")
    tab.call("Network.setCacheDisabled", cacheDisabled=True)
    tab.call("Emulation.setCPUThrottlingRate", rate=slower)
    paints, loads = [], []
    for _ in range(LOADS):
        tab.open(page.as_uri())
        tab.wait("performance.getEntriesByName('first-contentful-paint').length")
        paints.append(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        loads.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    return median(paints), median(loads)


if __name__ == "__main__":
    main()
