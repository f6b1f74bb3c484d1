"""`ratchet tune` from its command line, on the CPU: what it finds, what it survives, and what it says."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.tune.records import TuningRecord
from tests.integration.playground import PROOF, Finished, Playground, commit, wait_until

KNOBS = """\
import os, pathlib, time
import torch
from ratchet import Workload, benchmark

TUNE = {"REPEAT": (0, 20, 40, 400), "KIND": ("ok", "wrong", "compile", "raise", "crash", "hang", "wait")}
TUNING = {"REPEAT": 40, "KIND": "ok"}
CONSTRAINTS = (lambda REPEAT, KIND: KIND == "ok" or REPEAT == 20,)


class CompilationError(Exception):
    pass


def trouble(kind):
    if kind == "compile":
        raise CompilationError("at 3:4:\\n  tl.dot(a, b)\\nno such layout")
    if kind == "raise":
        raise ValueError("no")
    if kind == "crash":
        os.abort()
    if kind == "hang":
        time.sleep(600)
    if kind == "wait":
        here = pathlib.Path(os.environ["GATE"])
        (here / "reached").touch()
        while not (here / "open").exists():
            time.sleep(0.02)


@benchmark(configs={"small": {"size": 256}, "large": {"size": 512}, "plain": {"size": 64}}, devices=("cpu",))
def knobs(*, device, size):
    x = torch.randn(size, device=device)

    def run(REPEAT, KIND):
        trouble(KIND)
        out = x + 1
        for _ in range(REPEAT):
            x + 1
        time.sleep(REPEAT * 5e-5)
        return out + 1 if KIND == "wrong" else out

    def plain():
        return x + 1

    tuned = dict(tune=TUNE, tuning=TUNING, constraints=CONSTRAINTS) if size > 64 else {}
    return Workload(
        run=run if tuned else plain, reference=lambda: x.double() + 1, dtype="float32", flops=size, bytes=8 * size, **tuned
    )
"""
ALL_KINDS = '"ok", "wrong", "compile", "raise", "crash", "hang", "wait"'
SETTINGS = "blocks = 2\ncase_timeout = 15\n"
FAILING = "wrong compile raise crash hang"


@pytest.fixture
def knobs(make: Callable[..., Playground]) -> Callable[..., Playground]:
    """A repository whose benchmark has these kinds of configurations."""

    def build(kinds: str = "ok", **changes: str) -> Playground:
        text = KNOBS.replace(ALL_KINDS, ", ".join(map(repr, kinds.split())) + ",")
        for before, after in changes.items():
            text = text.replace(before, after)
        return make({"bench/knobs.py": text}, settings=SETTINGS)

    return build


def tune(play: Playground, *words: str) -> Finished:
    return play.ratchet("tune", "--device", "cpu", *words, env={"GATE": str(play.folder)})


def record_of(play: Playground, case: str = "knobs.small") -> TuningRecord:
    paths = list(play.repo.joinpath("tuning").glob(f"{case}.*.json"))
    assert len(paths) == 1, paths
    return load(paths[0], TuningRecord)


@pytest.mark.slow
def test_finds_the_best_and_confirms_it(knobs: Callable[..., Playground]) -> None:
    """What is obviously fastest wins in pairs and is tried on the configs that share its parameters; failures cost nothing."""
    play = knobs(f"ok {FAILING}")
    done = tune(play, "knobs/small", "--time-budget", "4m", "--json")
    assert done.code == 0, done
    record = record_of(play)
    assert json.loads(done.out) == record.model_dump(mode="json")
    assert record.best == {"REPEAT": 0, "KIND": "ok"}
    endings = {(each.configuration["REPEAT"], each.configuration["KIND"]): each for each in record.evaluations}
    assert len(endings) == len(record.evaluations) == record.valid == 9
    assert {kind: each.outcome for (_, kind), each in endings.items() if kind != "ok"} == {
        "wrong": "wrong",
        "compile": "compile",
        "raise": "crash",
        "crash": "crash",
        "hang": "timeout",
    }
    assert endings[20, "compile"].reason == "CompilationError: no such layout"
    assert "SIGABRT" in endings[20, "crash"].reason
    assert not any(each.samples_ms for (_, kind), each in endings.items() if kind != "ok")
    assert endings[400, "ok"].outcome == "dropped"
    found = record.confirmed(record.best)
    assert found.ratio < 0.1
    assert found.high < 0.1
    assert [each.config for each in record.others] == ["large"], "plain has no parameters"
    assert "faster on large" in record.verdict
    assert record.sessions[-1].ended == "every configuration was tried"
    play.assert_clean()


@pytest.mark.slow
def test_a_budget_ends_the_search_in_the_middle_of_an_evaluation(knobs: Callable[..., Playground]) -> None:
    """Time that is over cuts off what hangs, which is not recorded as a failure, and what was found until then is confirmed."""
    play = knobs("ok hang", **{"case_timeout": "case_timeout", '"REPEAT": 40, "KIND": "ok"}': '"REPEAT": 40, "KIND": "ok"}'})
    play.repo.joinpath("pyproject.toml").write_text("[tool.ratchet]\nblocks = 2\nblock_ms = 2\n", encoding="utf-8")
    done = tune(play, "knobs/small", "--time-budget", "25s")
    assert done.code == 0, done
    record = record_of(play)
    assert record.sessions[-1].ended == "the time was over"
    assert not any(each.outcome == "timeout" for each in record.evaluations)
    assert record.verdict
    play.assert_clean()


@pytest.mark.slow
def test_the_budget_counts_from_the_first_configuration_that_could_be_tried(knobs: Callable[..., Playground]) -> None:
    """Benchmarks that take most of a budget to import leave it whole for the search, and the record says what starting took."""
    play = knobs(**{"import torch\n": "import torch\ntime.sleep(4)\n"})
    done = tune(play, "knobs/small", "--time-budget", "5s")
    assert done.code == 0, done
    session = record_of(play).sessions[-1]
    assert 4 < session.startup_s < session.wall_s
    assert "of them to start" in done.out


def _interrupted(play: Playground, number: signal.Signals) -> tuple[Finished, TuningRecord]:
    child = play.start("tune", "--device", "cpu", "knobs/small", env={"GATE": str(play.folder), "RATCHET_CASE_TIMEOUT": "60"})
    wait_until(lambda: play.folder.joinpath("reached").exists() or child.poll() is not None, "the search did not get there")
    child.send_signal(number)
    done = play.finish(child)
    wait_until(lambda: not play.processes(), "processes are left")
    return done, record_of(play)


@pytest.mark.slow
def test_killed_and_resumed(knobs: Callable[..., Playground]) -> None:
    """kill -9 loses the running evaluation at most; --resume tries the rest and nothing twice."""
    play = knobs("ok wait")
    done, before = _interrupted(play, signal.SIGKILL)
    assert done.code == -signal.SIGKILL
    assert before.verdict == ""
    assert before.sessions[-1].strategy == "exhaustive", "what auto came down to is known from the start"
    play.folder.joinpath("open").touch()
    done = tune(play, "knobs/small", "--resume")
    assert done.code == 0, done
    record = record_of(play)
    assert record.evaluations[: len(before.evaluations)] == before.evaluations
    tried = [tuple(each.configuration.values()) for each in record.evaluations]
    assert len(tried) == len(set(tried)) == record.valid == 5
    assert [each.first for each in record.sessions] == [0, len(before.evaluations)]
    assert record.best == {"REPEAT": 0, "KIND": "ok"}


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_tried(knobs: Callable[..., Playground]) -> None:
    """Ctrl-C exits 130 with one sentence, leaves no process, and the record holds what was tried."""
    play = knobs("ok wait")
    done, _ = _interrupted(play, signal.SIGINT)
    assert done.code == 130, done
    assert done.sentence.startswith("interrupted;")
    assert "written before that: tuning/" in done.sentence
    assert done.sentence.endswith("--resume continues it.")
    play.assert_clean()


def test_resume_refuses_another_space(knobs: Callable[..., Playground]) -> None:
    """--resume continues the same space and machine only, and says what differs; without a record it says so."""
    play = knobs()
    missing = tune(play, "knobs/small", "--resume")
    assert missing.code == 2
    assert "nothing to resume" in missing.sentence
    assert tune(play, "knobs/small", "--max-evaluations", "1").code == 0
    commit(play.repo, "more", {"bench/knobs.py": KNOBS.replace("(0, 20, 40, 400)", "(0, 20, 40)")})
    other = tune(play, "knobs/small", "--resume")
    assert other.code == 3
    assert "space: REPEAT [0, 20, 40, 400] → [0, 20, 40]" in other.sentence
    path = next(play.repo.joinpath("tuning").glob("*.json"))
    path.rename(path.with_name("knobs.small.another-machine.0123456789.json"))
    elsewhere = tune(play, "knobs/small", "--resume")
    assert elsewhere.code == 3
    assert "another-machine" in elsewhere.sentence


@pytest.mark.slow
def test_resume_refuses_other_code(knobs: Callable[..., Playground]) -> None:
    """Evaluations of edited code do not join the earlier ones; prose, tuned values and what the search wrote are none."""
    play = knobs()
    assert tune(play, "knobs/small", "--max-evaluations", "1").code == 0
    assert not record_of(play).head.dirty
    tuned = json.dumps({"schema_version": 1, "cases": {}})
    commit(play.repo, "found", {"README.md": "Read this.", "bench/tuned.json": tuned, "tuning/earlier/x.json": "{}"})
    assert tune(play, "knobs/small", "--max-evaluations", "1", "--resume").code == 0
    before = record_of(play)
    play.repo.joinpath("bench/knobs.py").write_text(KNOBS.replace("out = x + 1", "out = 1 + x").replace(ALL_KINDS, '"ok",'))
    edited = tune(play, "knobs/small", "--resume")
    assert edited.code == 3
    assert "with changes), so this search cannot continue it. Leave --resume out" in edited.sentence
    assert record_of(play) == before


@pytest.mark.slow
def test_an_earlier_record_is_kept(knobs: Callable[..., Playground]) -> None:
    """A search without --resume takes no earlier evaluation away: that record moves to tuning/earlier, and a line says so."""
    play = knobs()
    first = tune(play, "knobs/small", "--max-evaluations", "2")
    assert "Kept:" not in first.out
    earlier = record_of(play)
    path = next(play.repo.joinpath("tuning").glob("*.json"))
    older = path.parent / "earlier" / f"{path.stem}.1.json"
    older.parent.mkdir()
    older.write_text("of an even earlier search")
    done = tune(play, "knobs/small", "--max-evaluations", "1")
    kept = older.with_name(f"{path.stem}.2.json")
    assert f"Kept: tuning/earlier/{kept.name}, an earlier record of this case" in done.out.splitlines()
    assert load(kept, TuningRecord) == earlier
    assert older.read_text() == "of an even earlier search"
    assert len(record_of(play).sessions) == len(record_of(play).evaluations) == 1
    done = tune(play, "knobs/small", "--resume", "--max-evaluations", "1")
    assert "Kept:" not in done.out
    assert len(record_of(play).evaluations) == 2
    assert (play.repo / "tuning" / "suggestions.md").read_text().count("# Autotune Report") == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing",), 2, "No case, benchmark or config is called nothing."),
        (("knobs",), 2, "names 3 cases"),
        (("knobs/plain",), 2, "has no parameters to tune on the CPU. Give its workload"),
        (("knobs/small", "--strategy", "luck"), 2, "luck"),
    ],
)
def test_what_cannot_be_tuned(knobs: Callable[..., Playground], words: tuple[str, ...], code: int, said: str) -> None:
    """An unknown case, several cases, a case without parameters and an unknown strategy each end with a sentence."""
    done = tune(knobs(), *words)
    assert done.code == code, done
    assert said in done.sentence


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"(0, 20, 40, 400)": "(40,)"}, 2, "one configuration, which is in use: there is nothing to tune. Give `tune`"),
        ({'KIND == "ok" or REPEAT == 20': 'KIND == "ok" and REPEAT == 40'}, 2, "one configuration, which is in use"),
        ({"(0, 20, 40, 400)": "()"}, 2, "contradicts itself: tuning REPEAT=40 is not among the values of tune: []. Fix `tune`"),
        ({'KIND == "ok" or REPEAT == 20': "False"}, 2, "contradicts itself: tuning {'REPEAT': 40, 'KIND': 'ok'} does not hold"),
        ({"torch.randn(size, device=device)": "no_weights"}, 3, "knobs/small cannot be built: NameError: "),
    ],
    ids=["one value", "one left", "empty", "contradictory", "unbuilt"],
)
def test_spaces_that_cannot_be_searched(knobs: Callable[..., Playground], changes: dict[str, str], code: int, said: str) -> None:
    """A space of one configuration, an empty one, and one that leaves today's values out are bad input, with what to do.

    A case that cannot be built cannot be measured here.
    """
    play = knobs("ok", **changes)
    done = tune(play, "knobs/small")
    assert done.code == code, done
    assert said in done.sentence
    assert not list(play.repo.joinpath("tuning").iterdir())


def test_a_default_that_fails_can_be_replaced(knobs: Callable[..., Playground]) -> None:
    """Where the default gives no time here, the others are timed alone, and nothing is said to be faster than it."""
    play = knobs("ok wrong", **{'"REPEAT": 40, "KIND": "ok"}': '"REPEAT": 20, "KIND": "wrong"}'})
    done = tune(play, "knobs/small")
    assert done.code == 0, done
    record = record_of(play)
    assert {each.outcome for each in record.evaluations} == {"correct", "wrong"}
    assert not any(each.normalised for each in record.evaluations)
    assert record.best is None
    assert "the default gives no time here" in record.verdict
    assert "the fastest is REPEAT=0 KIND=ok" in record.verdict


def test_a_space_in_which_all_fail(knobs: Callable[..., Playground]) -> None:
    """If no configuration gives a time, the run ends with how they failed, and exits 3."""
    play = knobs("wrong raise", **{'"REPEAT": 40, "KIND": "ok"}': '"REPEAT": 20, "KIND": "wrong"}'})
    done = tune(play, "knobs/small")
    assert done.code == 3, done
    assert "None of the 2 configurations tried gives a time (" in done.sentence
    assert "wrong result" in done.sentence
    assert "`ratchet run knobs/small` shows what the default does" in done.sentence


TUNED = {
    "parameters": {"REPEAT": 0, "KIND": "ok"},
    "speedup": 20.0,
    "speedup_low": 19.0,
    "speedup_high": 21.0,
    "confidence": 0.95,
    "pairs": 10,
    "default": {"REPEAT": 40, "KIND": "ok"},
    "commit": "0" * 40,
    "date": "2026-01-01T00:00:00Z",
    "torch": "2.9",
}


def _apply(play: Playground, device: str, **parameters: object) -> None:
    table = {"knobs/small": {device: TUNED | {"parameters": {**dict(TUNED["parameters"]), **parameters}}}}  # type: ignore[call-overload]
    text = json.dumps({"schema_version": 1, "cases": table})
    commit(play.repo, "tuned", {"bench/tuned.json": text})


def _cpu() -> str:
    from ratchet.core.device.environment import cpu_model

    return cpu_model(Path("/proc/cpuinfo"))


@pytest.mark.slow
def test_what_was_applied_is_what_is_timed(knobs: Callable[..., Playground]) -> None:
    """Each side of a check has its own tree's bench/tuned.json over its tuning; entries of other machines count for nothing."""
    play = knobs()
    _apply(play, _cpu())
    done = play.check("knobs/small", "knobs/large", *PROOF)
    assert done.code == 0, done
    assert done.case("knobs/small").tuning == {"REPEAT": 0, "KIND": "ok"}
    faster = done.verdict("knobs/small").comparison
    assert faster.ratio < 0.6, "2 ms less of waiting shows on any machine; whether it is proven depends on how busy that is"
    assert done.case("knobs/large").tuning == {"REPEAT": 40, "KIND": "ok"}
    _apply(play, "another machine", REPEAT=20)
    done = play.ratchet("run", "--device", "cpu", "--pairs", "3", "knobs/small")
    assert done.case("knobs/small").tuning == {"REPEAT": 40, "KIND": "ok"}


def test_what_was_applied_and_is_not_in_the_space_is_refused(knobs: Callable[..., Playground]) -> None:
    """A value that tune has not, and a file that is none of ours, end with a sentence that names the file."""
    play = knobs()
    _apply(play, _cpu(), REPEAT=7)
    done = play.ratchet("run", "--device", "cpu", "--pairs", "3", "knobs/small")
    assert done.code == 1
    assert "REPEAT=7 is not among" in done.verdict("knobs/small").reason
    assert "tuned.json" in done.verdict("knobs/small").reason
    play.repo.joinpath("bench/tuned.json").write_text("{", encoding="utf-8")
    done = play.check("knobs/small")
    assert done.code == 2
    assert done.sentence.startswith("bench/tuned.json is not JSON: ")
