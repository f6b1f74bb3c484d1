"""A verdict as a badge for a README: an SVG, or JSON for shields.io's endpoint badge.

`ratchet history --badge` writes either. Pure.
"""

from __future__ import annotations

import json
from xml.sax.saxutils import escape

from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.untrusted import clean

LABEL = "performance"
_COLORS = {"brightgreen": "#3fb950", "red": "#da3633", "orange": "#bc6c25", "yellow": "#9a6700", "lightgrey": "#6e7781"}
"""Names that shields.io knows → what the SVG has."""
_LETTER, _PADDING = 6.6, 10.0
"""Width of a letter of Verdana at 11 px, about, and space on both sides of a text."""


def words_of(report: ReportRecord) -> tuple[str, str]:
    """Return what a badge says, and its colour. Only a run in which every case has an answer says that nothing is slower."""
    counts = {outcome: report.counts.get(outcome, 0) for outcome in Outcome}
    for outcome, word, color in (
        (Outcome.FAILED, "failed", "red"),
        (Outcome.REGRESSED, "slower", "red"),
        (Outcome.SLOWER, "slower, not proven", "orange"),
    ):
        if counts[outcome]:
            return f"{counts[outcome]} {word}", color
    if report.verdict != "pass" or counts[Outcome.MEASURED]:
        return "not measured", "lightgrey"
    if counts[Outcome.INCONCLUSIVE]:
        return f"{counts[Outcome.INCONCLUSIVE]} inconclusive", "yellow"
    if counts[Outcome.IMPROVED]:
        return f"{counts[Outcome.IMPROVED]} faster, none slower", "brightgreen"
    return "nothing slower", "brightgreen"


def badge_json(report: ReportRecord, label: str = LABEL) -> str:
    """Return the verdict as the document of an endpoint badge: https://shields.io/badges/endpoint-badge"""
    message, color = words_of(report)
    fields = {"schemaVersion": 1, "label": clean(label, 60), "message": message, "color": color}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def badge_svg(report: ReportRecord, label: str = LABEL) -> str:
    """Return a picture that needs no server."""
    message, color = words_of(report)
    shown = clean(label, 60)
    left, right = (len(text) * _LETTER + _PADDING for text in (shown, message))
    width, title = left + right, escape(f"{shown}: {message}")
    texts = "".join(
        f'<text x="{middle:.1f}" y="14" textLength="{len(text) * _LETTER:.1f}">{escape(text)}</text>'
        for text, middle in ((shown, left / 2), (message, left + right / 2))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img"><title>{title}</title>'
        f'<clipPath id="r"><rect width="{width:.0f}" height="20" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left:.1f}" height="20" fill="#444d56"/>'
        f'<rect x="{left:.1f}" width="{right:.1f}" height="20" fill="{_COLORS[color]}"/></g>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )
