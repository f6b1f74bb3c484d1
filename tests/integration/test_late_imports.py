"""What cases import when they are called: once a host where nothing depends on when, else in each process as before."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.playground import Playground

BENCH = """\
{top}
from ratchet import benchmark


@benchmark(configs={{"a": {{}}, "b": {{}}}}, devices=("cpu",))
def op(*, device):
    {before}
    import late
    return lambda: late.value()
"""


def imports(make: Callable[..., Playground], log: Path, late: str = "", before: str = "pass", top: str = "") -> tuple[int, str]:
    """Check two cases in six pairs. Return how often their module was imported, and the report."""
    text = (
        f"with open({str(log)!r}, 'a') as file:\n    print('imported', file=file)\n{late}\nimport torch\nX = torch.ones(5000)\n"
    )
    play = make(
        {
            "late.py": f"{text}def value():\n    return X * 2\n",
            "bench/op.py": BENCH.format(before=before, top=top),
        },
        {"n.txt": "x"},
    )
    done = play.ratchet("check", "--device", "cpu", "--pairs", "6", "--time-identical")
    return len(log.read_text().splitlines()), done.markdown


@pytest.mark.slow
@pytest.mark.parametrize(("before", "times"), [("pass", 2), ("len('x')", 6)])
def test_a_late_import_happens_once_a_host(before: str, times: int, make: Callable[..., Playground], tmp_path: Path) -> None:
    """No pair imports. The survey's workers do, one for each case and side, unless the function imports before anything else."""
    assert imports(make, tmp_path / "log", before=before)[0] == times


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "before", "top"),
    [
        ("", "import os\n    os.environ['FAST'] = 'yes'", ""),
        ("", "import torch\n    torch.set_default_dtype(torch.float64)", ""),
        ("", "pass", "import os\nos.environ['FAST'] = 'yes'"),
        ("import torch\ntorch.set_default_dtype(torch.float64)", "pass", ""),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "pass", ""),
    ],
)
def test_an_import_that_depends_on_its_place_stays_there(
    late: str, before: str, top: str, make: Callable[..., Playground], tmp_path: Path
) -> None:
    """A case or its file has set something before it imports, or the module sets something for the whole process."""
    count, _ = imports(make, tmp_path / "log", late, before, top)
    assert count >= 24


@pytest.mark.slow
def test_a_long_import_that_cannot_be_done_ahead_is_named(make: Callable[..., Playground], tmp_path: Path) -> None:
    """The report says how long, why, and what to write instead."""
    late = "import torch, time\ntime.sleep(1.5)\ntorch.set_default_dtype(torch.float64)"
    _, report = imports(make, tmp_path / "log", late)
    sentence = r"Imports inside benchmark functions take \d+(\.\d+)? s in each process, since they also change default_dtype"
    assert re.search(sentence, report)
