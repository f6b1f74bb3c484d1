"""The page of a check as a person sees it, photographed by Chromium: on a desktop, and on a phone in the dark.

``python research/report_page.py docs/examples/report`` judges the samples of tests/data/h200_red again, with their eight pairs
three times over, since a regression takes twenty, and writes both pictures. Needs ``chromium``.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the scenes of its tests

from site_speed import in_few_colours

from ratchet.core.judge.comparison import pairs_of
from ratchet.core.records.files import save_bytes, save_text
from ratchet.core.report.page import render_page
from tests.browser import browser
from tests.pages import h200_run
from tests.recorded_runs import recorded


def main(folder: Path) -> None:
    cases = h200_run("h200_red").cases
    ratios = {case.name: [math.exp(pair.log_ratio) for pair in pairs_of(case.head, case.reference)] for case in cases}
    with tempfile.TemporaryDirectory() as place, browser() as tab:
        page = Path(place, "report.html")
        save_text(page, render_page(recorded("h200_red").reports["h200"], ratios))
        for name, width, height, dark in (("report", 1100, 900, False), ("report_phone_dark", 390, 800, True)):
            tab.resize(width, height, dark=dark)
            tab.open(page.as_uri())
            save_bytes(folder / f"{name}.png", in_few_colours(tab.photograph()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
