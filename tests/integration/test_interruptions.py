"""Ctrl-C, a cancelled job, an outright kill, and two checks at once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import ReportRecord
from tests.integration.playground import ADDS, HARNESS, LENIENT, QUICK, Playground, wait_until

GATED = ADDS.replace(
    "    return Workload(",
    "    import os, pathlib, time\n"
    "    here = pathlib.Path(os.environ['GATE'])\n"
    "    (here / 'reached').touch()\n"
    "    while not (here / 'open').exists():\n"
    "        time.sleep(0.02)\n"
    "    return Workload(",
)
"""Waits in the middle of measuring until the test says go on."""


@pytest.fixture
def gated(make: Callable[..., Playground]) -> Playground:
    play = make({"bench/adds.py": GATED}, {"notes.txt": "x\n"})
    play.repo.joinpath("results").mkdir()
    play.repo.joinpath("results/report.json").write_text("of an earlier check", encoding="utf-8")
    return play


def _start(play: Playground, *words: str) -> subprocess.Popen[str]:
    child = play.start("check", *QUICK, *LENIENT, *words, env={"GATE": str(play.folder)})
    wait_until(lambda: play.folder.joinpath("reached").exists() or child.poll() is not None, "measuring did not begin")
    return child


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_check_cleans_up(gated: Playground, number: signal.Signals) -> None:
    """SIGINT, SIGTERM and SIGHUP while measuring exit 130 with one sentence; trees and workers go, earlier results stay."""
    child = _start(gated)
    assert gated.processes()
    child.send_signal(number)
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)  # by somebody who cannot wait, in the middle of the cleaning up
    done = gated.finish(child)
    assert done.code == 130, done
    assert done.sentence.startswith("interrupted;")
    assert done.sentence.endswith("no file was written.")
    gated.assert_clean()
    assert gated.repo.joinpath("results/report.json").read_text(encoding="utf-8") == "of an earlier check"
    assert {path.name for path in gated.repo.joinpath("results").iterdir()} == {"report.json"}


@pytest.mark.slow
def test_a_check_interrupted_after_measuring_leaves_files_that_agree(make: Callable[..., Playground]) -> None:
    """Ctrl-C while what changed is profiled: run, verdict and page are of one check, and the sentence names them."""
    play = make({"bench/adds.py": ADDS}, {"notes.txt": "x\n"})
    ends = "import os, signal\nimport ratchet.explain.cases as it\n"
    ends += "it.Explainer.explain = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
    play.folder.joinpath("sitecustomize.py").write_text(ends, encoding="utf-8")
    results = play.repo / "results"
    results.mkdir()
    for name in ("report.json", "report.html", "ratchet_report.md"):
        (results / name).write_text("of an earlier check", encoding="utf-8")
    done = play.finish(play.start("check", *QUICK, *LENIENT, env={"PYTHONPATH": f"{play.folder}:{HARNESS}"}))
    assert done.code == 130, done
    run = load(results / "current.json", RunRecord)
    verdict = load(results / "report.json", ReportRecord)
    assert verdict.started_at == run.started_at
    for path in results.iterdir():
        assert f"results/{path.name}" in done.sentence
        assert path.read_text(encoding="utf-8") != "of an earlier check"
    play.assert_clean()


@pytest.mark.slow
def test_interrupted_build_cleans_up(make: Callable[..., Playground], tmp_path: Path) -> None:
    """SIGINT during a build ends the build with its children, and the trees go."""
    build = f"import pathlib, subprocess, sys\npathlib.Path({str(tmp_path / 'reached')!r}).touch()\n"
    build += "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[0]])\n"
    play = make({"bench/adds.py": ADDS, "make.py": build}, {"notes.txt": "x\n"}, settings='build = "python3 ./make.py"\n')
    child = _start(play)
    child.send_signal(signal.SIGINT)
    done = play.finish(child)
    assert done.code == 130, done
    play.assert_clean()


@pytest.mark.slow
def test_killed_check_takes_its_workers_along_and_the_next_one_cleans_up(gated: Playground) -> None:
    """After kill -9 nothing keeps running, and the next check removes the abandoned worktrees and is not locked out."""
    child = _start(gated)
    assert len(gated.processes()) >= 3
    child.kill()
    child.communicate()
    wait_until(lambda: not gated.processes(), "hosts or workers outlive the controller")
    assert list(gated.temp.glob("ratchet-trees-*/*/head"))
    gated.folder.joinpath("open").touch()
    done = gated.check(env={"GATE": str(gated.folder)})
    assert done.code == 0, done
    gated.assert_clean()


@pytest.mark.slow
def test_second_check_waits_or_says_who_holds_the_device(gated: Playground) -> None:
    """A second check exits 3 and names the first, with --wait it is measured after it; --wait nonsense exits 2."""
    first = _start(gated)
    refused = gated.check()
    assert refused.code == 3
    assert f"held by pid {first.pid}" in refused.sentence
    assert str(gated.repo) in refused.sentence
    nonsense = gated.check("--wait", "soon")
    assert nonsense.code == 2
    assert "'--wait': 'soon' is not a duration" in nonsense.err
    second = gated.start("check", *QUICK, *LENIENT, "--wait", "2m", env={"GATE": str(gated.folder)})
    assert " against " in second.stderr.readline()
    assert f"held by pid {first.pid}" in second.stderr.readline()
    os.set_blocking(second.stderr.fileno(), True)
    gated.folder.joinpath("open").touch()
    assert gated.finish(first).code == 0
    assert gated.finish(second).code == 0
    gated.assert_clean()


@pytest.mark.slow
def test_nohup_is_respected(gated: Playground) -> None:
    """A check that was started with SIGINT and SIGHUP ignored, as `nohup … &` does, goes on when they come."""

    def nohup() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    child = gated.start("check", *QUICK, *LENIENT, env={"GATE": str(gated.folder)}, prepare=[nohup])
    wait_until(lambda: gated.folder.joinpath("reached").exists() or child.poll() is not None, "measuring did not begin")
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGHUP)
    gated.folder.joinpath("open").touch()
    done = gated.finish(child)
    assert done.code in {0, 3}, done
    assert done.report.cases
    gated.assert_clean()
