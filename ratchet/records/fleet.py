"""``results/quarantine.json``: the cards on which nothing should be measured. `ratchet doctor --strict` reads it. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from ratchet.records.base import Record


class QuarantinedCard(Record):
    """One GPU of a fleet."""

    uuid: str
    gpu: str
    """Its model."""
    reason: str
    """One sentence."""
    since: AwareDatetime


class Quarantine(Record):
    """All of them. A card is let go by deleting its entry."""

    schema_version: Literal[1] = 1
    cards: tuple[QuarantinedCard, ...] = ()
