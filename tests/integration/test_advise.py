"""`ratchet advise`: a script, a case and a saved trace; whatever goes wrong ends with one sentence within the time limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.playground import Finished, Playground

STALLS = """\
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.zeros(4)


if __name__ == "__main__":
    print("arguments:", sys.argv[1:])
    for batch in DataLoader(Slow(), batch_size=1):
        batch.sum()
"""
FOREVER = "import time\nimport torch\n\nwhile True:\n    torch.ones(4) + 1\n    time.sleep(1e-3)\n"


def advised(play: Playground, *words: str) -> tuple[Finished, dict[str, Any]]:
    done = play.ratchet("advise", "--device", "cpu", "--json", *words)
    assert done.code == 0, done.err
    return done, json.loads(done.out)


@pytest.mark.slow
def test_a_script_and_its_saved_trace(play: Playground) -> None:
    """The script gets its arguments and its output is not mixed with ours; the saved trace says the same, with the line."""
    (play.repo / "train.py").write_text(STALLS, encoding="utf-8")
    _, advice = advised(play, "--save", "kept.json", "train.py", "--save", "7")
    first = advice["findings"][0]
    line = STALLS.splitlines().index("    for batch in DataLoader(Slow(), batch_size=1):") + 1
    assert (first["pattern"], first["where"]["file"], first["where"]["line"]) == ("loader-stall", "train.py", line)
    assert first["where"]["is_exact"]
    read = play.ratchet("advise", "kept.json", "--json")
    assert json.loads(read.out)["findings"] == advice["findings"]
    assert play.ratchet("advise", "kept.json").out.splitlines()[2].startswith("1. [transfer] loader-stall: ")


@pytest.mark.slow
def test_a_case(play: Playground) -> None:
    """A benchmark of the repository is called until it is warm, and traced. All of this starts as it does for a user."""
    done = play.finish(play.start("advise", "--device", "cpu", "--json", "adds/small"))
    assert done.code == 0, done.err
    advice = json.loads(done.out)
    assert advice["source"] == "adds/small"
    assert advice["steady_us"] > 0
    assert len(advice["checklist"]) == 10


@pytest.mark.slow
def test_a_script_that_does_not_end_is_ended(play: Playground) -> None:
    """What was traced until then is looked at."""
    (play.repo / "forever.py").write_text(FOREVER, encoding="utf-8")
    _, advice = advised(play, "--trace-for", "1s", "forever.py")
    assert advice["traced_us"] > 0


WRONG = {
    "missing": (("none.py",), 2, "none.py does not exist."),
    "no case": (("nothing/here",), 2, "nothing/here"),
    "nsys": (("a.nsys-rep",), 2, "is a report of Nsight, which `ratchet advise` does not read."),
    "not JSON": (("text.json",), 2, "is not a trace of torch.profiler"),
    "raises": (("raises.py",), 3, "raises.py failed: ValueError: no (raises.py:3)"),
    "exits": (("exits.py",), 3, "exits.py failed: SystemExit: 4"),
    "crashes": (("crashes.py",), 3, "crashes.py ended with "),
    "profiles": (("profiles.py",), 3, "It uses torch.profiler itself."),
    "hangs": (("--trace-for", "1s", "--time-limit", "12s", "hangs.py"), 3, "hangs.py gave no trace within 13 s."),
}
SCRIPTS = {
    "raises.py": "import torch\n\nraise ValueError('no')\n",
    "exits.py": "raise SystemExit(4)\n",
    "crashes.py": "import os\n\nos.abort()\n",
    "profiles.py": "import torch\n\nwith torch.profiler.profile():\n    torch.ones(3).sum()\n",
    "hangs.py": "import time\n\nwhile True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass\n",
    "text.json": "no JSON",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
def test_whatever_goes_wrong_is_one_sentence(play: Playground, kind: str) -> None:
    """A wrong name or file exits with 2, a script that fails or hangs with 3."""
    for name, text in SCRIPTS.items():
        Path(play.repo, name).write_text(text, encoding="utf-8")
    words, code, sentence = WRONG[kind]
    done = play.ratchet("advise", "--device", "cpu", *words)
    assert done.code == code, done.err
    assert sentence in done.sentence
