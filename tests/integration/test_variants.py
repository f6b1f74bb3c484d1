"""`ratchet variants`, as a user runs it. What is timed is waits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.lab.records.variants import VariantsRecord
from tests.integration.playground import Playground, new_repository
from tests.once import once
from tests.steady.sitecustomize import REAL_CLOCK

WAITS = """\
import time

import torch
from ratchet import Workload, benchmark


@benchmark(configs={"short": {"n": 64}}, devices=("cpu",), variants=("improved", "naive"))
def waits(*, device, n, variant):
    x = torch.randn(n)

    def run():
        time.sleep(n * (2e-5 if variant == "naive" else 4e-6))
        return x + 1

    return Workload(run=run, reference=lambda: x.double() + 1, flops=n, bytes=8 * n)


@benchmark(configs={"gpu": {}}, devices=("cuda",), variants=("improved", "naive"))
def elsewhere(*, device, variant):
    return lambda: None
"""
CLAIMS = {
    "schema_version": 1,
    "claims": [
        {"case": "elsewhere", "title": "On a GPU", "step": "1 first", "text": "2×", "low": 2, "high": 2},
        {"case": "waits", "title": "Wait less", "step": "2 then", "text": "2–6×", "low": 2, "high": 6},
    ],
}
QUICK = ("--device", "cpu", "--pairs", "3", "--quiet")


def made(folder: Path) -> Playground:
    play = Playground(folder)
    files = {"bench/quickwins/waits.py": WAITS, "bench/quickwins/claims.json": json.dumps(CLAIMS), "bench/waits.py": WAITS}
    new_repository(play.repo, files)
    return play


@pytest.fixture
def place(tmp_path: Path) -> Playground:
    return made(tmp_path)


@pytest.fixture(scope="session")
def roofs(warm: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What this machine reaches, which the first command measures, and later ones read; by a clock that counts computing."""

    def measured(folder: Path) -> str:
        play = made(folder)
        assert play.ratchet("variants", "waits", *QUICK, env={REAL_CLOCK: "1"}).code == 0
        return (play.repo / "results" / "roofs.json").read_text(encoding="utf-8")

    text: str = once(tmp_path_factory, "roofs", measured)
    return text


@pytest.fixture
def known(place: Playground, roofs: str) -> Playground:
    """A repository where the roofs of this machine are known."""
    (place.repo / "results").mkdir()
    (place.repo / "results" / "roofs.json").write_text(roofs, encoding="utf-8")
    return place


def test_quick_wins(place: Playground) -> None:
    """Both variants are timed in pairs, the claim is held to the interval, and a table and a record are written."""
    done = place.ratchet("variants", "--quickwins", *QUICK)
    assert done.code == 0, done.err
    record = load(place.repo / "results" / "variants" / "quickwins.json", VariantsRecord)
    naive = next(case for case in record.cases if case.benchmark == "waits").variants[1]
    assert naive.interval
    assert naive.interval[0] > 2
    text = (place.repo / "results" / "variants" / "quickwins.txt").read_text(encoding="utf-8")
    assert text in done.out
    assert "2 then  Wait less" in text
    assert "    reached" in text
    assert "Not here (runs on cuda only): elsewhere/gpu." in text


def test_a_wrong_variant(place: Playground) -> None:
    """A variant whose result is wrong has no time, and the command fails."""
    place.commit({"bench/quickwins/waits.py": WAITS.replace("return x + 1\n", 'return x + (variant == "improved")\n')})
    done = place.ratchet("variants", "--quickwins", *QUICK, "--json")
    assert done.code == 1, done.err
    record = VariantsRecord.model_validate_json(done.out)
    (waits,) = [case for case in record.cases if case.benchmark == "waits"]
    assert waits.variants[1].median_ms is None
    assert "wrong result" in waits.variants[1].problem


def test_quick_wins_that_come_with_ratchet(place: Playground) -> None:
    """A repository without any has those of ratchet; a name that is none of them is refused."""
    done = place.ratchet("variants", "--quickwins", "nonsense", *QUICK)
    assert done.code == 2
    assert "No case, benchmark or config is called nonsense." in done.sentence
    place.commit({"bench/quickwins/claims.json": ""})
    done = place.ratchet("variants", "--quickwins", "bmm", *QUICK)
    assert done.code == 0, done.err
    assert "40 products into one bmm" in done.out
    assert place.git("status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.slow
def test_variants(known: Playground) -> None:
    """All variants stand in a table and a picture; of one that fails the reason is said. The old name works."""
    done = known.ratchet("variants", "waits", *QUICK)
    assert done.code == 0, done.err
    assert re.search(r"^short +naive ", done.out, re.MULTILINE)
    assert re.search(r"^improved is [45]\.", done.out, re.MULTILINE)  # 20 µs of n over 4, with what a wait takes besides
    folder = known.repo / "results" / "variants"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"waits.{ending}" for ending in ("csv", "json", "png", "svg", "txt")
    ]
    assert (folder / "waits.txt").read_text(encoding="utf-8") in done.out
    known.commit({"bench/waits.py": WAITS.replace("    def run():", '    assert variant == "improved"\n\n    def run():')})
    done = known.ratchet("study", "waits", *QUICK)
    assert done.code == 3
    assert "waits/short, naive: AssertionError" in done.out
    assert re.search(r"^short +improved ", done.out, re.MULTILINE)


@pytest.mark.slow
def test_many_sizes(known: Playground) -> None:
    """Each value is a case of its own: twice the wait takes twice the time, on a line of each variant."""
    done = known.ratchet("variants", "waits", "--over", "n=2**7..2**9", *QUICK)
    assert done.code == 0, done.err
    folder = known.repo / "results" / "variants"
    assert {path.suffix for path in folder.glob("waits_n.*")} == {".csv", ".json", ".png", ".svg", ".txt"}
    heading, *rows = [line.split(",") for line in (folder / "waits_n.csv").read_text(encoding="utf-8").splitlines()]
    assert [row[0] for row in rows] == ["128", "256", "512"]
    naive = [float(row[heading.index("naive_ms")]) for row in rows]
    assert naive[0] < naive[1] < naive[2]
    assert all(float(row[heading.index("naive_speedup_low")]) > 2 for row in rows)


@pytest.mark.slow
def test_a_benchmark_without_variants(known: Playground) -> None:
    """It is timed alone; a parameter that it does not have is refused with those that it has."""
    alone = WAITS.replace(', variants=("improved", "naive")', "").replace("variant):", 'variant="naive"):')
    known.commit({"bench/waits.py": alone})
    done = known.ratchet("variants", "waits/short", "--over", "n=64,128", *QUICK)
    assert done.code == 0, done.err
    assert "waits" in (known.repo / "results" / "variants" / "waits_n.csv").read_text(encoding="utf-8").splitlines()[0]
    done = known.ratchet("variants", "waits", "--over", "m=64,128", *QUICK)
    assert done.code == 2
    assert done.sentence == "waits/short has no parameter m. Its parameters: n."
