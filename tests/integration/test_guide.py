"""The second walk of docs/using.md, as a newcomer follows it: its files are written and its commands run, in their order."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.integration.playground import Playground
from tests.steady.sitecustomize import REAL_CLOCK

USING = (Path(__file__).parents[2] / "docs" / "using.md").read_text(encoding="utf-8")
GUIDE = USING.partition("\n## Make a slow script faster\n")[2]
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
SHORT = {REAL_CLOCK: "1", "RATCHET_BLOCK_MS": "1", "RATCHET_BLOCKS": "2", "RATCHET_PAIRS": "6", "RATCHET_DEVICE": "cpu"}
"""Not how the guide measures, but enough to see that its commands work."""
ELSEWHERE = ("mkdir",)
"""Beginnings of commands that make the folder, which is there."""
PATIENT = {"ratchet evaluate": ("--pairs", "40")}
"""What commands need besides on a busy machine, where the few seconds that they take may not decide; eight pairs mostly do."""
AUTHOR = {f"GIT_{who}_{what}": "newcomer" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of ratchet in the guide prints, by command; none fails."""
    place = Playground(tmp_path_factory.mktemp("guide"))
    place.repo.mkdir()
    place.git("init", "-q")
    found = {}
    for kind, text in BLOCKS:
        if kind == "python":
            file = place.repo / text.partition("\n")[0].removeprefix("# ")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            continue
        for command in (line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")):
            if command.startswith("ratchet ") and not command.startswith(ELSEWHERE):
                more = next((words for start, words in PATIENT.items() if command.startswith(start)), ())
                done = place.ratchet(*shlex.split(command)[1:], *more, env=SHORT)
                assert done.code == 0, f"{command}\n{done.out}\n{done.err}"
                found[command] = done.out
            elif not command.startswith(ELSEWHERE):
                subprocess.run(
                    ["bash", "-c", command], cwd=place.repo, check=True, capture_output=True, env=place.environ(AUTHOR)
                )
    return found


def lines_of(printed: dict[str, str], *words: str) -> list[str]:
    """The lines of the commands that begin so."""
    return [line for command, out in printed.items() if command.startswith(words) for line in out.splitlines()]


@pytest.mark.slow
def test_the_guide_finds_and_proves_what_was_planted(printed: dict[str, str]) -> None:
    """Both loops are named, whichever costs more on this machine now; the candidate is faster; both experiments are kept."""
    findings = [line for line in lines_of(printed, "ratchet advise") if re.match(r"\d\. ", line)]
    assert sorted(re.split(r"[ :]", line)[2] for line in findings) == ["gemm-loop", "indexing-loop"]
    assert "verdict: faster" in lines_of(printed, "ratchet evaluate")
    assert sum(" KEEP " in line for line in lines_of(printed, "ratchet experiment run")) == 2
