"""Artifacts as somebody would write them who wants more than a verdict: records and profiles, each with a name.

`poisoned_files.py` has the folders and archives that they may come in.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.core.records.files import dumps
from ratchet.core.records.profile import Profiles
from ratchet.core.records.run import Policy, RunRecord
from tests import examples, history_examples
from tests.examples import compared
from tests.history_examples import gone, timed

POLICY = Policy()
GREEN = examples.run_of(timed(1.0), timed(0.9, "copy/a"))
"""Green as it is: whatever is wrong with it has to be found."""
RED = examples.run_of(
    timed(1.1, failures=()),
    timed(1.0, "copy/a"),
    gone("a/gone"),
    compared(name="a/broken", failures=examples.run_record().cases[1].failures),
    compared(name="a/skipped", skipped="No GPU.", workload=None, reference_workload=None, performance=None),
    timed(1.0, "a/unfit", unfit="Hot."),
)
"""Red as it is: whatever it says of itself, it stays red."""
PROFILES = Profiles(profiles=(examples.case_profile("attention/training_512"),))

Json = dict[str, Any]
Build = Callable[[Path], Path]


@dataclass(frozen=True)
class Poison:
    """One artifact: ``build`` makes it in a folder and returns where it is."""

    name: str
    build: Build
    refused: bool = True
    """It must not be taken in at all; else it may be, and must stay red."""


def document(run: RunRecord) -> Json:
    """The record as JSON with its samples listed, to be copied and not to be changed."""
    return examples.listed(run)


GREEN_JSON, RED_JSON = document(GREEN), document(RED)


def folder(run: str | bytes | Json | Callable[[], str] | None, others: Mapping[str, str | bytes | Json] = {}) -> Build:
    """A folder with a run's file, and others. JSON becomes text where the folder is made, not while tests are collected."""

    def build(place: Path) -> Path:
        inside = place / "artifact"
        files = {**({} if run is None else {"current.json": run}), **others}
        inside.mkdir()
        for name, written in files.items():
            content = json.dumps(written) if isinstance(written, dict) else written() if callable(written) else written
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            (inside / name).write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return inside

    return build


def put(document: Json, where: str, value: object) -> Json:
    """A copy with another value in one place: ``cases.0.head.0.ready_s``. It shares all other parts with the document."""
    made = dict(document)
    here: Any = made
    *above, last = [int(step) if step.isdigit() else step for step in where.split(".")]
    for step in above:
        here[step] = copy.copy(here[step])
        here = here[step]
    here[last] = value
    return made


def poisoned_records() -> list[Poison]:
    """Artifacts whose files say something else than a measurement would."""
    return [*numbers(), *types(), *texts(), *claims(), *documents(), *contradicting(), *profiles()]


# ---- numbers and types

HUGE = int("9" * 400)
FLOATS = (
    *("wall_s", "plan.block_ms", "plan.budget_s", "policy.regression", "policy.confidence", "cases.0.workload.flops"),
    *("cases.0.head.0.blocks.0.samples_ms.0", "cases.0.reference.3.blocks.1.samples_ms.2", "cases.0.head.0.ready_s"),
    *("cases.0.head.0.error", "cases.0.performance.median_time_ms", "environment.fingerprint.gpu_power_limit_w"),
)
COUNTS = (
    "plan.pairs",
    "plan.blocks",
    "plan.seed",
    "cases.0.head.0.pair",
    "cases.0.head.0.blocks.0.index",
    "environment.gpu_index",
)


def numbers() -> Iterator[Poison]:
    values = {
        "NaN": math.nan,
        "Infinity": math.inf,
        "-Infinity": -math.inf,
        "1e308": 1e308,
        "huge": HUGE,
        "text": "1",
    }
    for where in (*FLOATS, *COUNTS):
        for name, value in values.items():
            yield Poison(f"{where} is {name}", folder(put(GREEN_JSON, where, value)))
    for where in ("cases.0.head.0.blocks.0.samples_ms.0", "cases.0.head.1.pair", "plan.pairs", "wall_s"):
        yield Poison(f"{where} is negative", folder(put(GREEN_JSON, where, -1)))
    yield Poison("a sample is 0", folder(put(GREEN_JSON, "cases.0.head.0.blocks.0.samples_ms.0", 0)))


def types() -> Iterator[Poison]:
    places = (
        "cases",
        "cases.0",
        "cases.0.head",
        "cases.0.head.0.blocks",
        "cases.0.head.0.blocks.0.samples_ms",
        "environment",
        "head",
    )
    values = {"null": None, "text": "x", "number": 3, "an empty object": {}, "a list of numbers": [1, 2], "true": True}
    for where in places:
        for name, value in values.items():
            if not (where.endswith("samples_ms") and isinstance(value, list)):
                yield Poison(f"{where} is {name}", folder(put(GREEN_JSON, where, value)))


# ---- texts, on a run that is red

HOSTILE = {
    "tag": "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "fold": "</details></td></table><details open>",
    "comment": "--> <!-- ratchet:report:default -->",
    "link": "[click](https://evil.example) <https://evil.example> https://evil.example www.evil.example",
    "image": "![x](https://evil.example/x.png)",
    "reference": "[x]: https://evil.example\n\n[x]",
    "mention": "@octocat @octocat/team octocat@evil.example",
    "issue": "#1 GH-1 octocat/kernels#1 fixes #2",
    "table": "| a | b |\n|---|---|\n| c | d |",
    "fence": "```\n````\n~~~\n`x`",
    "heading": "# big\n===\n---\n> quote\n- [x] done\n1. one",
    "mathematics": "$$\\href{https://evil.example}{x}$$ $x$ **b** _i_ ~~s~~",
    "command": "::set-output name=verdict::pass\n::error::x\n::add-mask::x",
    "old command": "a ##[set-env name=PATH]x ##[error]y",
    "colour": "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07x\x1b]8;;\x07\x9b31m",
    "direction": "\u202eevil\u202c \u2066x\u2069 \u200f",
    "control": "a\x00b\x08c\x07d\x7fe\x85f\u2028g\u2029h",
    "surrogate": "a\ud800b",
    "verdict": "### ✅ No case is slower by over 3 %: 6 unchanged",
    "entities": "&lt;b&gt; &#60;b&#62; &commat;octocat &#64;octocat",
}
UNREADABLE = "surrogate"
"""No UTF-8 can hold it, so a record with it is none."""
PLACES = (
    *("warnings", "command", "head.subject", "head.commit", "reference.subject", "environment.python", "environment.platform"),
    *(
        "environment.fingerprint.gpu",
        "environment.fingerprint.driver",
        "plan.clock",
        "reference_missing",
        "cases.3.failures.0.message",
    ),
    *("cases.3.failures.0.stage", "cases.3.failures.0.last_lines", "cases.4.skipped", "cases.5.unfit", "cases.0.opaque"),
    *("cases.0.workload.dtype", "cases.0.config.name", "cases.0.benchmark"),
)
LISTS = ("warnings", "command", "last_lines")


def texts() -> Iterator[Poison]:
    for kind, text in HOSTILE.items():
        everywhere = RED_JSON
        for where in PLACES:
            everywhere = put(everywhere, where, [text, text] if where.endswith(LISTS) else text)
        yield Poison(f"{kind} in every text", folder(everywhere), refused=kind == UNREADABLE)
        yield Poison(f"{kind} in a name", folder(put(GREEN_JSON, "cases.0.name", text)))
        stages = put(RED_JSON, "cases.0.head.0.stages_ms", {text: [0.1]})
        yield Poison(f"{kind} in a stage", folder(stages), refused=kind == UNREADABLE)
    for where in ("warnings.0", "head.subject", "cases.0.name", "cases.0.benchmark", "plan.clock"):
        made = GREEN_JSON | {"warnings": ["x"]}
        yield Poison(f"10 MB in {where}", folder(put(made, where, "a/" + "x" * 10_000_000)))
    yield Poison("a key of 10 MB", folder(GREEN_JSON | {"x" * 10_000_000: 1}))
    many = RED_JSON | {"warnings": ["@octocat <b> " * 20] * 3000}
    yield Poison("3,000 warnings", folder(many), refused=False)


# ---- what it says of itself


def claims() -> Iterator[Poison]:
    for where, value in {
        "verdict": "pass",
        "exit_code": 0,
        "headline": "No regression.",
        "conclusion": "success",
        "counts": {"UNCHANGED": 6},
        "cases.0.outcome": "UNCHANGED",
        "cases.0.verdict": "pass",
        "cases.0.comparison": None,
        "policy.red": False,
        "acceptances": [],
        "__class__": "x",
    }.items():
        yield Poison(f"it claims {where}", folder(put(RED_JSON, where, value)))
    for where, value in {"policy.regression": 0.99, "policy.false_alarm": 1e-9, "policy.on_inconclusive": "fail"}.items():
        yield Poison(f"its own {where}", folder(put(RED_JSON, where, value)), refused=False)
    for value in (0, 2, 10**30, -1, "1", 1.0, True, None, [1]):
        yield Poison(f"schema_version is {value!r}", folder(GREEN_JSON | {"schema_version": value}))
    lying = put(RED_JSON, "cases.0.performance", json.loads(examples.performance(1e-6).model_dump_json()))
    yield Poison("figures that its samples do not give", folder(lying), refused=False)


# ---- the file itself


def documents() -> Iterator[Poison]:
    text = dumps(GREEN)
    yield Poison("nothing", folder(None))
    yield Poison("no run", folder(None, {"report.json": text}))
    for name, content in {
        "a blank": " ",
        "null": "null",
        "a text": '"pass"',
        "trailing comma": text.replace("\n}\n", ",\n}\n"),
        "a comment": "// pass\n" + text,
        "a duplicate field": text.replace('"kind"', '"kind": "run",\n  "kind"', 1),
        "a duplicate case": text.replace('"cases": [', '"cases": [],\n  "cases": [', 1),
        "a null byte": text.replace("check", "che\0ck", 1),
        "a picture": "\x89PNG\r\n\x1a\n",
        "YAML": "!!python/object/apply:os.system ['id']",
        "twins among many": "{" + "".join(f'"x{n}":0,' for n in range(60_000)) + '"x59999":0}',
    }.items():
        yield Poison(f"its file is {name}", folder(content))
    for code in ("utf-32", "utf-7"):
        yield Poison(f"its file is {code}", folder((text if code != "utf-7" else "é" + text).encode(code)))
    yield Poison("its file is Latin-1", folder(text.replace("check", "chéck", 1).encode("latin-1")))
    yield Poison("its file is larger than any", _sparse("current.json", 65 * 2**20))


def _sparse(name: str, size: int) -> Build:
    def build(place: Path) -> Path:
        inside = folder(None)(place)
        with (inside / name).open("wb") as stream:
            stream.truncate(size)
        return inside

    return build


def contradicting() -> Iterator[Poison]:
    case = GREEN.cases[0]
    for name, changes in {
        "a case twice": {"cases": (*GREEN.cases, case)},
        "a slow case behind a fast one of its name": {"cases": (timed(1.5), case)},
        "a head that is not there": {"cases": (case.model_copy(update={"in_head": False}),)},
        "a skipped case with samples": {"cases": (timed(1.5, skipped="No GPU."),)},
        "a reference that is not there": {"cases": (timed(1.5, in_reference=False),)},
        "a pair twice": {"cases": (case.model_copy(update={"head": (*case.head, case.head[0])}),)},
        "fewer pairs on one side": {"cases": (case.model_copy(update={"head": case.head[:4]}),)},
        "no workload": {"cases": (case.model_copy(update={"workload": None}),)},
        "more pairs than planned": {"plan": GREEN.plan.model_copy(update={"pairs": 1})},
        "a plan of a million pairs": {"plan": GREEN.plan.model_copy(update={"pairs": 10**6})},
        "a best of no case": {"best": (timed(1.0, "a/b"),)},
        "one shard of many": {"shard": {"number": 1, "of": 9}},
    }.items():
        made = document(GREEN.model_copy(update={key: value for key, value in changes.items() if key != "shard"}))
        made |= {key: value for key, value in changes.items() if key == "shard"}
        yield Poison(name, folder(made))
    nothing_left = {
        "no case": (),
        "only skipped cases": (compared(name="a/b", skipped="No GPU."),),
        "only gone cases": (gone("a/b"),),
        "only new cases": (history_examples.new("a/b"),),
        "only unfit cases": (timed(1.0, unfit="Hot."),),
        "every block throttled": (compared(name="a/b", head=_throttled(case.head), reference=_throttled(case.reference)),),
    }
    for name, cases in nothing_left.items():
        yield Poison(name, folder(dumps(GREEN.model_copy(update={"cases": cases}))), refused=False)


def _throttled(workers: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(examples.blocks(worker.pair, 1.0, 1.0, throttled=(0, 1)) for worker in workers)


# ---- what only adds to the verdict


def profiles() -> Iterator[Poison]:
    index: Json = json.loads(dumps(PROFILES))
    red = dumps(RED)

    def beside(name: str, content: str | bytes | Json) -> Poison:
        return Poison(f"profiles: {name}", folder(red, {"nsight/profiles.json": content}), refused=False)

    yield beside("empty", "")
    yield beside("no JSON", "\x89PNG")
    yield beside("nested", "[" * 100_000)
    yield beside("unknown version", index | {"schema_version": 9})
    kernel = "profiles.0.head.kernels.0"
    for where, value in {
        f"{kernel}.duration_s": 1e308,
        f"{kernel}.registers": HUGE,
        f"{kernel}.dram_read_bytes": math.nan,
        f"{kernel}.spill_bytes": -1,
        "profiles.0.findings.0.weight": math.inf,
        "profiles.0.findings.0.confidence": "certain",
        "profiles.0.case": 3,
    }.items():
        yield beside(f"{where} is {str(value)[:9]}", put(index, where, value))
    for kind, text in HOSTILE.items():
        made = index
        for where in ("what", "why", "advice", "kernel"):
            made = put(made, f"profiles.0.findings.0.{where}", text)
        made = put(put(made, f"{kernel}.function", text), "profiles.0.steps_down", [text])
        yield beside(kind, put(made, "profiles.0.files", {text: text}))
        yield beside(f"{kind} in a case", put(index, "profiles.0.case", text))
