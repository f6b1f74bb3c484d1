"""Conclusion, title, summary, text and annotations of a check run, and ``::error`` lines for the runner's log.

All come from the same `CommentPage` as the comment. Called by `ratchet.github.publish` and `judge_again`, and by
`ratchet.github.cli` for the log. Pure, apart from reading the templates of this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet import tools
from ratchet.core import untrusted
from ratchet.core.records.verdict import SLOWDOWNS, CaseVerdict, Outcome
from ratchet.core.report import words
from ratchet.github.comment import CommentPage, render_part, short_change
from ratchet.github.records import ANNOTATIONS_A_CALL, Annotation, CheckOutput, Conclusion, Level

TITLE = 200
"""Characters of a title."""
MESSAGE = 1000
"""Characters of an annotation's message."""
MOST_COMMANDS = 10
"""Lines for the log, the worst cases first: GitHub shows ten of a kind for each step."""
_LEVELS: dict[Outcome, Level] = {
    Outcome.FAILED: "failure",
    Outcome.REGRESSED: "failure",
    Outcome.SLOWER: "warning",
    Outcome.UNFIT: "warning",
    Outcome.INCONCLUSIVE: "warning",
}
_COMMANDS: dict[Level, str] = {"failure": "error", "warning": "warning", "notice": "notice"}
# A relative path of plain words that ends in .py, without `.` and `..`: annotations of anything else are left out.
_PATH = re.compile(r"(?!/)(?:(?!\.{1,2}(?:/|$))[A-Za-z0-9_.+-]+/)*(?!\.{1,2}$)[A-Za-z0-9_.+-]+\.py")
_BENCHMARK = re.compile(r"[A-Za-z0-9_]{1,100}")


def check_output(page: CommentPage) -> tuple[Conclusion, CheckOutput]:
    """Return the conclusion of the check run and its output."""
    title = tools.part("profile_text").headline(page.report) if page.report else page.problem or "There is no verdict."
    annotations = [
        Annotation(path=path, line=1, level=_LEVELS[case.outcome], title=_title(case), message=_message(page, case))
        for case in _worst(page)
        if (path := _path(page, case))
    ]
    summary, text = render_part(page, "summary"), render_part(page, "text")
    output = CheckOutput(untrusted.plain(title, TITLE), summary, text, tuple(annotations[:ANNOTATIONS_A_CALL]))
    return page.state.conclusion, output


def workflow_commands(page: CommentPage) -> Iterator[str]:
    """Yield ``::error file=…,line=1,title=…::…`` for the worst cases; text in them can end no line and start no other command.

    Print them outside of ``::stop-commands::``, where the runner still reads commands.
    """
    if page.report is None:
        yield _command("failure", None, "ratchet", page.problem or "There is no verdict.")
        return
    for case in _worst(page)[:MOST_COMMANDS]:
        yield _command(_LEVELS[case.outcome], _path(page, case), _title(case), _message(page, case))


def candidate_paths(page: CommentPage, bench: str) -> dict[str, str]:
    """Return benchmark → the file that may hold it, for the cases worth an annotation: as many as one call may annotate.

    Whoever fills ``page.paths`` keeps those that exist, because a benchmark may be in a file of another name. Each is a question
    to GitHub, which answers a job's token a thousand an hour.
    """
    names = [*dict.fromkeys(case.name.partition("/")[0] for case in _worst(page))][:ANNOTATIONS_A_CALL]
    paths = {name: f"{bench.strip('/')}/{name}.py" for name in names if _BENCHMARK.fullmatch(name)}
    return {name: path for name, path in paths.items() if _PATH.fullmatch(path)}


def _worst(page: CommentPage) -> list[CaseVerdict]:
    taken = {acceptance.case for acceptance in page.acceptances}
    listed = words.worst_first(page.report) if page.report else []
    return [case for case in listed if case.outcome in _LEVELS and not (case.outcome in SLOWDOWNS and case.name in taken)]


def _path(page: CommentPage, case: CaseVerdict) -> str | None:
    path = page.paths.get(case.name.partition("/")[0])
    return path if path and _PATH.fullmatch(path) else None


def _title(case: CaseVerdict) -> str:
    change = f" {short_change(case)}" if case.outcome in SLOWDOWNS and case.comparison else ""
    return untrusted.plain(f"{case.name} {words.WORDS[case.outcome].text}{change}", TITLE)


def _message(page: CommentPage, case: CaseVerdict) -> str:
    """Return the reason of the outcome, and the cause where a profile shows one."""
    profiles = page.report.profiles if page.report else ()
    cause = next((tools.part("profile_text").first_sentence(of_case) for of_case in profiles if of_case.case == case.name), "")
    return untrusted.plain(f"{untrusted.clean(case.reason)} {untrusted.clean(cause)}", MESSAGE)


def _command(level: Level, path: str | None, title: str, message: str) -> str:
    places = {"file": path, "line": "1"} if path else {}
    values = {name: _data(value).replace(":", "%3A").replace(",", "%2C") for name, value in {**places, "title": title}.items()}
    properties = ",".join(f"{name}={value}" for name, value in values.items())
    return f"::{_COMMANDS[level]} {properties}::{_data(untrusted.plain(message, MESSAGE))}"


def _data(text: str) -> str:
    """Escape the text of a command as GitHub's own @actions/core does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
