"""The suggestions as people read them. To write the golden files again: ``pytest --golden-update``, then read the diff."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest

from ratchet.core.records.files import save, save_text
from ratchet.tune.command import write_suggestions
from ratchet.tune.records import Configuration, Evaluation, TuningRecord, tuning_path
from ratchet.tune.suggestions import render_suggestions, ways
from tests import tuning_examples as sample
from tests.examples import ENVIRONMENT, FINGERPRINT, HEAD, STARTED

Golden = Callable[[str, str], None]
HOSTILE = "@octocat #1 <img src=x onerror=alert(1)> [x](http://a.b) | `code`\n# Heading\n::error::x"
FEW = (sample.WINNER, sample.SECOND, sample.DEFAULT)
UNCONFIRMED: dict[str, Any] = {"best": None, "confirmations": (), "others": ()}


def hostile() -> TuningRecord:
    """Every text in it would like to be more than text."""
    space = {HOSTILE: ("a; rm -rf /", '"$(id)"')}
    default = {HOSTILE: "a; rm -rf /"}
    best = {HOSTILE: '"$(id)"'}
    return sample.record(
        case=HOSTILE,
        config=HOSTILE,
        space=space,
        default=default,
        constraints=(HOSTILE,),
        evaluations=(_timed(default, 1.0), _timed(best, 0.5), sample.evaluation(default, 2, "crash", reason=HOSTILE)),
        confirmations=(sample.confirmation(best, 0.5, HOSTILE),),
        others=(sample.confirmation(best, 0.9, HOSTILE),),
        best=best,
        verdict=HOSTILE,
        sessions=(sample.SESSION.model_copy(update={"command": ("ratchet", HOSTILE), "ended": HOSTILE, "strategy": HOSTILE}),),
        head=HEAD.model_copy(update={"subject": HOSTILE}),
    )


def _timed(configuration: Configuration, cost: float) -> Evaluation:
    return Evaluation(
        configuration=configuration, outcome="correct", samples_ms=(cost,), median_ms=cost, normalised=cost,
        at=STARTED,
    )  # fmt: skip


def test_suggestions(golden: Golden) -> None:
    """The whole file is what it was when somebody last looked at it: a case that wins, and one that does not."""
    verdict = "No change recommended: in interleaved pairs nothing was faster than the default."
    slower = (sample.confirmation(sample.WINNER, 1.02, "rows_8k"),)
    other = sample.record(case="normalize/rows_8k", config="rows_8k", best=None, others=(), verdict=verdict, confirmations=slower)
    golden("suggestions.md", render_suggestions([other, sample.record()], ["x.json was left out: it is not JSON."]))


OTHERS: dict[str, dict[str, Any]] = {
    "dropped": {
        "evaluations": tuple(sample.evaluation(each, 0, "dropped" if each != sample.WINNER else "correct") for each in FEW)
    },
    "unconfirmed": UNCONFIRMED | {"verdict": "No change recommended: nothing faster than the default was confirmed."},
    "unfinished": UNCONFIRMED | {"verdict": "", "evaluations": sample.evaluations()[:9]},
    "failed": UNCONFIRMED
    | {
        "verdict": "",
        "evaluations": tuple(sample.evaluation(each.configuration, 0, "crash") for each in sample.evaluations()[:4]),
    },
    "empty": UNCONFIRMED | {"verdict": "", "evaluations": ()},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_records(name: str, golden: Golden) -> None:
    """A search that dropped most, confirmed nothing, was killed, or timed nothing says so, and what to do about it."""
    golden(f"suggestions_{name}.md", render_suggestions([sample.record(**OTHERS[name])]))


def test_hostile_suggestions(golden: Golden) -> None:
    """No name, value, reason or command becomes a mention, a tag, a link, a heading, a table cell or a command of a shell."""
    text = render_suggestions([hostile()])
    golden("suggestions_hostile.md", text)
    page = cmarkgfm.github_flavored_markdown_to_html(text)
    assert not re.search(r"<(img|a|script)\b", page)
    assert not re.search(r"[@#](?=\w)", page)
    assert page.count("<h1>") == 1


def test_ways_in_c() -> None:
    """Yes and no are 1 and 0 in C, and a word is a word in Python."""
    cmake, nvcc, triton, own = (way.code for way in ways({"X": True, "KIND": "float4", "num": 2.5}, "tuning/a.b.json"))
    assert "PRIVATE X=1 KIND=float4 num=2.5)" in cmake
    assert "nvcc -DX=1 -DKIND=float4 -Dnum=2.5 kernel.cu" in nvcc
    assert """triton.Config({"X": True, "KIND": 'float4', "num": 2.5})""" in triton
    assert "ratchet tune --record tuning/a.b.json --apply" in own


@pytest.mark.parametrize(
    ("record", "configuration"),
    [("a b", {"X": 1}), ("a/b", {"X Y": 1}), ("a/b", {"X": "$(id)"}), ("a/b", {"X": "a;b"}), ("-a", {"X": 1}), ("a/b", {"": 1})],
)
def test_only_plain_words_are_pasted(record: str, configuration: dict[str, Any]) -> None:
    """What a shell or CMake could read as more than a word is in no command."""
    assert ways(configuration, record) == ()


@pytest.mark.no_cover
def test_a_folder_of_records(tmp_path: Path) -> None:
    """The file is made of all records of the folder; one that is damaged is named and left as it is."""
    other = FINGERPRINT.model_copy(update={"gpu": "NVIDIA L4"})
    records = [
        sample.record(),
        sample.record(environment=ENVIRONMENT.model_copy(update={"fingerprint": other})),
        sample.record(case="normalize/rows_8k"),
    ]
    save_text(tmp_path / "broken.json", '{"schema_version": 1, "case"')
    for record in records:
        save(tuning_path(tmp_path, record.case, record.environment.fingerprint), record)
    text = write_suggestions(tmp_path).read_text()
    assert re.findall("^# (.*)", text, re.MULTILINE) == [
        f"Autotune Report: attention/training_512 on {FINGERPRINT.key}",
        f"Autotune Report: attention/training_512 on {other.key}",
        "Autotune Report: normalize/rows_8k",
    ]
    assert "- ⚠️ broken.json was left out: it is not JSON" in text
    assert str(tmp_path) not in text
    assert (tmp_path / "broken.json").read_text() == '{"schema_version": 1, "case"'
    assert write_suggestions(tmp_path).read_text() == text


@pytest.mark.parametrize("path", ["tests/golden/suggestions.md", "tests/golden/suggestions_hostile.md", "tuning/suggestions.md"])
def test_charts_that_github_draws(path: str) -> None:
    """They are blue lines within their axis, above zero, with as many numbers as fit side by side, and no bars."""
    text = (Path(__file__).parents[2] / path).read_text()
    charts = re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)
    assert charts
    for chart in charts:
        colour, kind, across, up, line = (each.strip() for each in chart.strip().splitlines())
        settings = json.loads(colour.removeprefix("%%{init:").removesuffix("}%%"))
        assert settings == {"themeVariables": {"xyChart": {"plotColorPalette": "steelblue"}}}
        assert kind == "xychart-beta"
        low, high = map(float, re.findall(r"([\d.-]+) --> ([\d.-]+)", up)[0])
        values = [float(each) for each in re.findall(r"-?[\d.]+", line.removeprefix("line"))]
        assert line.startswith("line [")
        assert 0 <= low < min(values) <= max(values) < high
        assert len(values) == across.count('"') / 2 - 1 <= 16
