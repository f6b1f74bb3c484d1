"""After the search: the best few against the default, and the winner on the benchmark's other configs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

from ratchet.errors import UnfitError
from ratchet.judge.tuning import recommend
from ratchet.pipeline.tuning_session import Session, finalists
from ratchet.pipeline.tuning_subject import Site
from ratchet.records.tuning import Configuration, Confirmation, TuningRecord
from ratchet.report.suggestions import elsewhere
from ratchet.report.tuning import settings_text
from ratchet.tune.budget import Budget
from ratchet.tune.executor import Executor
from ratchet.units import percent

PROMISING = 0.98
"""Of the default's time: who took more in the search is not confirmed, since it will hardly take a twentieth less."""


def refuse_all_failed(session: Session) -> None:
    evaluations = session.record.evaluations
    if not evaluations:
        raise UnfitError("The time was over before one configuration had been tried.", "Give it more with --time-budget.")
    if not any(each.timed for each in evaluations):
        counts = Counter(each.outcome for each in evaluations)
        told = ", ".join(f"{outcome}: {count}" for outcome, count in counts.most_common())
        raise UnfitError(
            f"None of the {len(evaluations)} configurations tried gives a time ({told}). The first: {evaluations[0].reason}.",
            f"The record has the reasons of all; `ratchet run {session.record.case}` shows what the default does.",
        )


def decide(session: Session, site: Site, budget: Budget, executor: Executor) -> Configuration | None:
    """Confirm the best few, and keep what that means; what is recommended, if anything is."""
    record = session.record
    most = budget.finalists(time.monotonic())
    best = list(finalists(record.evaluations, record.default, most, PROMISING))
    confirmed: list[Confirmation] = []
    if best:
        site.progress.stage(f"Confirming the best {len(best)} against the default in pairs")
        confirmed = session.finals(record.case, best, budget.for_finals(time.monotonic()), executor)
        confirmed.sort(key=lambda each: each.comparison.ratio if each.comparison else math.inf)
    found = recommend(confirmed, site.settings.policy)
    verdict = found.verdict if best else _none_promising(record)
    update = {"confirmations": tuple(confirmed), "others": (), "best": found.best, "verdict": verdict}
    session.keep(session.record.model_copy(update=update))
    return found.best


def _none_promising(record: TuningRecord) -> str:
    """Where nothing was fast enough to be confirmed."""
    times = [each.normalised for each in record.evaluations if each.normalised is not None]
    if not times:
        timed = [each for each in record.evaluations if each.median_ms is not None]
        fastest = min(timed, key=lambda each: each.median_ms or 0.0, default=None)
        found = f"; the fastest is {settings_text(fastest.configuration)}" if fastest else ""
        return f"No change recommended: the default gives no time here, so nothing was compared with it{found}."
    best = f"of {len(record.evaluations)} configurations tried, the best takes {percent(min(times), 1)} of the default's time"
    return f"No change recommended: {best}."


def try_elsewhere(session: Session, site: Site, budget: Budget, names: Sequence[str], executor: Executor) -> None:
    """Compare the winner with the defaults of the benchmark's other configs, and add that to the verdict."""
    for left, name in zip(range(len(names), 0, -1), names, strict=True):
        seconds = budget.for_others(time.monotonic()) / left
        if seconds > 0 and session.record.best is not None:
            site.progress.stage(f"Trying the winner on {name}")
            others = (*session.record.others, *session.finals(name, [session.record.best], seconds, executor))
            session.keep(session.record.model_copy(update={"others": others}))
    if session.record.others:
        verdict = f"{session.record.verdict.rstrip('.')}; {elsewhere(session.record.others)}."
        session.keep(session.record.model_copy(update={"verdict": verdict}))
