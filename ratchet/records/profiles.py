"""``results/nsight/profiles.json``: the latest profile of every case."""

from __future__ import annotations

from typing import Literal

from ratchet.records.base import Record
from ratchet.records.profile import CaseProfile, Profile


class Profiles(Record):
    """One entry a case. Which code an entry is of, its trees say; every single metric is in the CSV file beside it."""

    schema_version: Literal[1] = 1
    profiles: tuple[CaseProfile, ...] = ()

    def of(self, case: str) -> CaseProfile | None:
        """The entry of one case."""
        return next((each for each in self.profiles if each.case == case), None)


def without_metrics(profile: CaseProfile) -> CaseProfile:
    """The same without the thousands of metrics that have no field of their own."""
    return profile.model_copy(update={"head": _slim(profile.head), "reference": _slim(profile.reference)})


def _slim(profile: Profile | None) -> Profile | None:
    if profile is None:
        return None
    return profile.model_copy(update={"kernels": tuple(each.model_copy(update={"metrics": {}}) for each in profile.kernels)})
