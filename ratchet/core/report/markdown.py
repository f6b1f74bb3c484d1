"""The Markdown report of a run, and what it shares with comment and suggestions: templates, levels of detail, names, commands.

Templates escape every value that is not `Markdown`, so a forgotten filter costs looks, never safety.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from typing import Any

import jinja2

from ratchet import tools
from ratchet.core import units, untrusted
from ratchet.core.judge.evidence import CHANGE_PAIRS, FEWEST_SESSIONS
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import Tree
from ratchet.core.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary
from ratchet.core.report import words
from ratchet.core.untrusted import Markdown

_SILENT = (Outcome.UNCHANGED, Outcome.MEASURED, Outcome.SKIPPED)
_WORST = (Outcome.FAILED, Outcome.REGRESSED, Outcome.SLOWER, Outcome.UNFIT, Outcome.INCONCLUSIVE)
_COMMAND_CASES = 5
"""Cases that the commands to measure again name."""
_HEX = frozenset("0123456789abcdef")
_LABELS = {
    "gpu_memory_bytes": "GPU memory",
    "gpu_power_limit_w": "Power limit",
    "mig": "MIG",
    "driver": "Driver",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "triton": "Triton",
    "cpu": "CPU",
    "cpu_threads": "CPU threads",
}
_UNITS: dict[str, Callable[[float], str]] = {"gpu_memory_bytes": units.size, "gpu_power_limit_w": lambda watts: f"{watts:g} W"}


@dataclass(frozen=True)
class Reason:
    """One sentence, and every case that it holds for."""

    word: words.Word
    names: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Detail:
    """A level of detail, for a report or comment whose length is limited."""

    cases: int
    """The most cases, warnings, profiles and reasons: this many of each."""
    log_lines: int
    figures: bool = True
    """Throughput, stages, and the counters of profiles."""
    findings: bool = True
    """The causes that the profiles show, with what to try."""
    machine: bool = True
    """Machine, plan, chart, and how to read the report."""


SHORTEST_ROW = 40
"""Bytes that a case takes in a table, at least."""
_DETAILS = (
    Detail(10**9, 20),
    Detail(200, 20),
    Detail(200, 20, figures=False),
    Detail(60, 10, figures=False),
    Detail(25, 5, figures=False, findings=False),
    Detail(10, 0, figures=False, findings=False, machine=False),
    Detail(3, 0, figures=False, findings=False, machine=False),
    Detail(0, 0, figures=False, findings=False, machine=False),
)
"""From everything to what every report needs; `fitted` uses the first that fits its limit."""


def render_markdown(report: ReportRecord, *, limit: int | None = None) -> str:
    """Return the Markdown report; with a ``limit`` in bytes (the step summary) as much as fits, the worst cases first."""
    return fitted(lambda detail: template("report.md.j2").render(_content(report, detail)), limit)


def fitted(render: Callable[[Detail], str], limit: int | None) -> str:
    """Return the text with the most detail that has at most ``limit`` bytes of UTF-8; the shortest where none has."""
    text = ""
    for detail in _DETAILS:
        # More rows than this never fit: thousands of cases are not rendered only to be dropped.
        text = render(detail if limit is None else replace(detail, cases=min(detail.cases, limit // SHORTEST_ROW)))
        if limit is None or len(text.encode()) <= limit:
            break
    return text


def shared_content(report: ReportRecord, detail: Detail, listed: Sequence[CaseVerdict]) -> dict[str, Any]:
    """Return content that both the comment and the report use. ``listed``: the cases, worst first."""
    shown = listed[: detail.cases]
    again = commands_again(report, listed) if detail.cases else []
    return {
        "report": report,
        "detail": detail,
        "words": words.WORDS,
        "compares": words.compares(report),
        "counted": words.counted(report),
        "meanings": words.meanings(report),
        "stored": any(case.comparison and not case.comparison.is_paired for case in shown),
        "failures": [case for case in shown if case.last_lines] if detail.log_lines else [],
        "dropped": [case for case in shown if case.dropped_blocks],
        "profiles": report.profiles[: detail.cases],
        "unprofiled": report.unprofiled[: detail.cases],
        "tables": tools.part("profile_text").tables if detail.figures else lambda _: (),
        "machine": machine(report.environment.fingerprint),
        "reproduce": untrusted.fenced(again, language="bash") if again else None,
    }


def _content(report: ReportRecord, detail: Detail) -> dict[str, Any]:
    listed = words.worst_first(report)
    timed = [case for case in listed if case.outcome is not Outcome.SKIPPED]
    shown = timed[: detail.cases]
    return shared_content(report, detail, timed) | {
        "mark": words.mark(report),
        "headline": tools.part("profile_text").headline(report),
        "cases": [case for case in shown if case.head or case.reference or words.compares(report)],
        "hidden": len(timed) - len(shown),
        "reasons": reasons(report, shown),
        "figures": [case for case in shown if case.head] if detail.figures else [],
        "roofs": any(words.roof(case.head) != words.NOTHING for case in shown),
        "roof_notes": words.roof_notes(shown),
        "flops": any(case.head and case.head.gflops for case in shown),
        "bytes": any(case.head and case.head.gb_s for case in shown),
        "unchecked": words.by_sentence(shown, lambda case: case.unchecked),
        "memory": words.by_sentence(shown, lambda case: case.memory),
        "staged": [case for case in shown if case.head and case.head.stages_ms] if detail.figures else [],
        "timed": words.by_sentence(shown, lambda case: case.timed_because) if detail.machine else {},
        "place": "results folder",
        "skipped": [case for case in listed if case.outcome is Outcome.SKIPPED][: detail.cases],
        "warnings": report.warnings[: detail.cases],
    }


def template(file: str) -> jinja2.Template:
    """Load a template (`template_source`), in which every value is escaped unless a filter of this module made it Markdown."""
    return _environment().get_template(file)


@cache
def _environment() -> jinja2.Environment:
    environment = environment_of(
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markdown) else untrusted.markdown(value),
    )
    environment.filters |= {
        "code": untrusted.name,
        "cell_name": untrusted.cell_name,
        "cell": lambda text: untrusted.markdown(text, untrusted.CELL),
        "fenced": lambda lines, most: untrusted.fenced(lines, most=most),
        "already_markdown": Markdown,  # for what a macro returns, whose own values were escaped one by one
        "tight": _tight,
        "tree": tree,
        "duration": units.duration,
        "time": words.time,
        "change": _change,
        "narrow_change": partial(_change, narrow=True),
        "whole_figures": lambda text: Markdown(untrusted.markdown(text).replace(" %", "\u00a0%")),
        "mark": lambda case, accepted: "☑️" if case.name in accepted else words.word(case).mark,
        "times": lambda case: Markdown(_tight(words.times(case)).replace("→\u00a0", "→ ")),
        "outcome": lambda case: _tight(f"{words.word(case).mark} {words.word(case).text}"),
        "throughput": lambda side: units.rate(side.gflops * 1e9, "FLOP/s") if side.gflops else words.NOTHING,
        "bandwidth": lambda side: units.rate(side.gb_s * 1e9, "B/s") if side.gb_s else words.NOTHING,
        "roof": _roof,
        "memory": _memory,
        "stage": lambda side, stage: (
            units.duration(side.stages_ms[stage] / 1e3) if side and stage in side.stages_ms else words.NOTHING
        ),
        "names": lambda names, most=10: Markdown(units.listed(names, most, untrusted.name)),
        "unexplained": tools.part("profile_text").unexplained,
        "shell": shlex.join,
    }
    environment.globals |= {"bench_from_head": words.BENCH_FROM_HEAD}
    return environment


def environment_of(**options: Any) -> jinja2.Environment:
    """Return an environment of jinja with what all templates share. Its ``options`` have to escape every value."""
    profile_text = tools.part("profile_text")
    environment = jinja2.Environment(  # noqa: S701 - `finalize` escapes Markdown; pages have `autoescape`
        loader=jinja2.FunctionLoader(template_source),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        **options,
    )
    environment.filters |= {
        "wall": units.wall,
        "threshold": units.threshold,
        "plural": units.plural,
        "gate": words.gate,
        "delta": words.delta,
        "detectable": words.detectable,
        "findings": profile_text.findings_of,
        "profile_notes": profile_text.notes,
        "first_sentence": profile_text.first_sentence,
    }
    environment.globals |= {"change_pairs": CHANGE_PAIRS, "fewest_sessions": FEWEST_SESSIONS}
    return environment


def template_source(file: str) -> str:
    """Return the text of a template: ``report.md.j2``, or of a tool, ``github/comment.md.j2``."""
    tool, _, name = file.rpartition("/")
    return (files(f"ratchet.{tool or 'core.report'}") / "templates" / name).read_text(encoding="utf-8")


def machine(fingerprint: Fingerprint) -> dict[str, object]:
    """Return the parts of a fingerprint that this machine has, under names for people."""
    shown: dict[str, object] = {"Device": fingerprint.processor}
    parts = fingerprint.model_dump(exclude={"device", "gpu"} if fingerprint.gpu else {"device", "gpu", "cpu"}, exclude_none=True)
    for part, value in parts.items():
        text = _UNITS[part](value) if part in _UNITS else value
        shown[_LABELS.get(part, part)] = text
    return shown


def reasons(report: ReportRecord, shown: Sequence[CaseVerdict]) -> list[Reason]:
    """Return the reasons of these outcomes, then which cases are host-bound, each sentence once."""
    spoken = [case for case in shown if words.outcome_before_acceptance(case, report) not in _SILENT]
    sentences = [(words.WORDS[case.outcome], words.reason(case), case.name) for case in spoken]
    sentences += [(words.HOST_BOUND, case.host_bound, case.name) for case in shown if case.host_bound]
    grouped: dict[tuple[words.Word, str], list[str]] = {}
    for word, text, name in sentences:
        grouped.setdefault((word, text), []).append(name)
    return [Reason(word, tuple(names), text) for (word, text), names in grouped.items()]


def commands_again(report: ReportRecord, listed: Sequence[CaseVerdict]) -> list[str]:
    """Return the commands that measure the worst cases again. People paste them, so only hashes and plain names get in."""
    if not is_hash(report.head) or (report.reference and not is_hash(report.reference)):
        return []
    base = f"check --base {report.reference.commit}" if report.reference else "check" if words.compares(report) else "run"
    base += " --bench-from head" if report.bench_from else ""
    if report.environment.differs:  # the same commit, mostly, and names of files that mean nothing elsewhere
        base += ' --env new="…" --env reference="…"'
    base += ' --command "…"' if "--command" in report.command else ""  # as the report's own table has it, and nobody pastes it
    worst = [case.name for case in listed if case.outcome in _WORST and is_plain(case.name)][:_COMMAND_CASES]
    command = " \\\n  ".join([f"ratchet {base}", *worst])
    if report.reference and report.reference.commit == report.head.commit:  # only uncommitted changes were compared
        return [command]
    return [f"git checkout {report.head.commit} &&", command]


def is_hash(tree: Tree) -> bool:
    return 7 <= len(tree.commit) <= 64 and _HEX.issuperset(tree.commit)


def is_plain(name: str) -> bool:
    """Return whether a shell, a chart and a path read the name as one plain word."""
    return bool(untrusted.PLAIN_NAME.fullmatch(name)) and not name.startswith("-") and len(name) <= untrusted.CELL


def tree(code: Tree) -> Markdown:
    """Return ``1a2b3c4d5e “Subject”``. The hash is not set as code, because GitHub links only plain ones."""
    commit = Markdown(code.commit[:10]) if is_hash(code) else untrusted.name(code.commit[:10])
    subject = f" “{untrusted.markdown(code.subject, untrusted.CELL)}”" if code.subject else ""
    return Markdown(f"{commit}{subject}{' **with uncommitted changes**' if code.dirty else ''}")


def _change(comparison: Comparison | None, *, narrow: bool = False) -> Markdown:
    """Return a change and its interval; ``narrow``: in pieces short enough for a phone."""
    interval = words.interval(comparison)  # numbers alone, so its brackets are no link
    kept_together = interval if narrow else interval.replace(" ", "\u00a0")
    return Markdown(f"{_tight(words.change(comparison))} {kept_together}".rstrip())


def _tight(text: str) -> Markdown:
    """Keep a figure on one line of a table: its spaces become no-break spaces."""
    return Markdown(untrusted.markdown(text).replace(" ", "\u00a0"))


def _roof(side: SideSummary) -> Markdown:
    shown = _tight(words.roof(side))
    if side.share_of_roof is None or side.cached:
        return shown
    between = " " if side.share_of_roof > words.ABOVE else " of "
    return Markdown(f"{shown}{between}{untrusted.markdown(side.roof or 'the roof', untrusted.CELL)}")


def _memory(case: CaseVerdict) -> str:
    sides = [units.size(side.peak_memory_bytes) for side in (case.reference, case.head) if side and side.peak_memory_bytes]
    if not sides:
        return words.NOTHING  # another harness does not say
    return sides[0] if len(set(sides)) == 1 else " → ".join(sides)
