"""Profiles of what changed, taken by `ratchet check` itself, and by hand. On the CPU: counters are for tests/gpu."""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.commands.profile.cases import INSTEAD, ProfileRequest, profile_side
from ratchet.commands.profile.results import INDEX, stem_of, write_metrics
from ratchet.config import Settings
from ratchet.measure.child.profile_target import MARK, TROUBLE, ProfileTarget
from ratchet.measure.tree_spec import TreeSpec
from ratchet.profile.ncu import Wish
from ratchet.profile.readers import read
from ratchet.records.files import load
from ratchet.records.profile import Activity, CaseProfile, KernelProfile, Profile, Profiles
from ratchet.records.verdict import Outcome
from ratchet.workload import Device
from tests.integration.playground import ADDS, PROOF, SLOW_ADDS, Finished, Playground, only_json

DATA = Path(__file__).parents[1] / "data" / "profiles"
EXTRA = ADDS.replace("def adds", "def extra")
ON = {"RATCHET_PROFILE": "auto"}
SLOW_EXTRA = SLOW_ADDS.replace("def adds", "def extra")


def index(play: Playground) -> Profiles:
    return load(play.repo / "results" / "nsight" / INDEX, Profiles)


def check(play: Playground, *words: str, **env: str) -> Finished:
    """With so few pairs that what is slower is not proven, unless ``words`` say otherwise."""
    return play.check(*words, env={**ON, **env})


def assert_clean(play: Playground) -> None:
    """As the playground has it, but for the empty folder that torch makes for the cache of its compiler."""
    for folder in play.temp.glob("torchinductor_*"):
        folder.rmdir()
    play.assert_clean()


def test_a_slower_case_is_profiled_on_both_sides(make: Callable[..., Playground]) -> None:
    """A planted slowdown comes with the traced times of both sides, what they show, and the step down, all in the report."""
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA}, {"bench/adds.py": SLOW_ADDS})
    done = check(play, *PROOF)
    assert done.code == 1, done
    assert [each.case for each in done.report.profiles] == ["adds/small"]
    found = done.report.profiles[0]
    assert found.failed == {}
    for side in (found.head, found.reference):
        assert side is not None
        assert (side.tool, side.kernels) == ("torch", ())
        assert side.activity is not None
        assert side.activity.kernels["aten::add"] > 0
        assert side.activity.calls > 0
    assert found.head is not None
    assert found.reference is not None
    assert found.head_tree == done.run.head
    assert found.reference_tree == done.run.reference
    assert any("no GPU counters" in sentence for sentence in found.steps_down)
    assert "### What the profiles show" in done.markdown
    assert "aten::add" in done.markdown
    assert "no GPU counters" in done.markdown
    assert "\nWhy adds/small: " in done.out
    assert index(play).of("adds/small") == found
    for path in found.files.values():
        assert (play.repo / "results" / path).is_file(), path
    again = play.ratchet("report")
    assert again.report.profiles == (found,)
    assert_clean(play)


def test_no_profile_where_none_is_wanted(make: Callable[..., Playground]) -> None:
    """`--no-profile`, the setting, or no change: no profile, no folder, the same verdict."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": SLOW_ADDS})
    for words, env in ((("--no-profile",), ON), ((), {}), (("--base", "HEAD"), ON)):
        done = play.check(*words, env=env)
        assert done.report.profiles == ()
        assert not (play.repo / "results" / "nsight").exists()


def test_only_so_many_cases_are_profiled(make: Callable[..., Playground]) -> None:
    """The worst slowdown comes first, proven or not, and what the cap leaves out is named."""
    slower = SLOW_EXTRA.replace("4 * REPEAT", "12 * REPEAT")
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA}, {"bench/adds.py": SLOW_ADDS, "bench/extra.py": slower})
    done = check(play, RATCHET_PROFILE_CASES="1")
    assert set(done.outcomes().values()) == {Outcome.SLOWER}
    assert [each.case for each in done.report.profiles] == ["extra/small"]
    assert done.report.unprofiled == ("adds/small",)
    assert "`adds/small` also changed, but a run profiles only so many cases" in done.markdown
    assert "Not profiled: 1 more changed case;" in done.out


def test_a_case_that_fails_when_profiled_keeps_its_verdict(make: Callable[..., Playground]) -> None:
    """A head that cannot be called outside a worker is slower all the same, and the report says why it has no profile."""
    trick = "import sys\nif any('target' in word for word in sys.orig_argv):\n    raise OSError('not here')\n"
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": trick + SLOW_ADDS})
    done = check(play)
    assert done.code == 3, done
    found = done.report.profiles[0]
    assert found.head is None
    assert "not among the cases of this tree" in found.failed["head"]
    assert found.reference is not None
    assert "No profile of the head" in done.markdown


def test_the_time_limit_holds(make: Callable[..., Playground]) -> None:
    """A case that never returns under the profiler is ended at the limit of its side."""
    trick = "import sys, time\nif any('target' in word for word in sys.orig_argv):\n    time.sleep(600)\n"
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": trick + SLOW_ADDS})
    done = check(play, RATCHET_PROFILE_TIMEOUT="20s")
    assert done.code == 3, done
    assert "torch.profiler hung: it did not end within 9 s" in done.report.profiles[0].failed["head"]
    assert_clean(play)


def test_by_hand(make: Callable[..., Playground]) -> None:
    """`profile` shows the head alone, or the reference beside it, times nothing, and replaces only the profile of that case."""
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA}, {"bench/adds.py": SLOW_ADDS})
    alone = play.ratchet("profile", "extra", "--device", "cpu")
    assert alone.code == 0, alone
    assert "Profile of extra/small" in alone.out
    assert "aten::add" in alone.out
    assert not (play.repo / "results" / "current.json").exists()
    beside = play.ratchet("profile", "adds/small", "--device", "cpu", "--compare", "--json")
    assert beside.code == 0, beside
    (found,) = (CaseProfile.model_validate(each) for each in only_json(beside.out))
    assert found.reference_tree is not None
    assert found.reference_tree.commit == play.git("rev-parse", "HEAD~1")
    assert found.reference is not None
    assert {each.case for each in index(play).profiles} == {"extra/small", "adds/small"}
    assert_clean(play)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name cases to profile"),
        (("--read",), "Name report files to read"),
        (("adds", "--base", "HEAD", "--compare"), "exclude each other"),
        (("--read", "x.ncu-rep", "--base", "HEAD"), "takes no commit"),
        (("nothing", "--device", "cpu"), "nothing"),
        (("adds", "--base", "nowhere", "--device", "cpu"), "nowhere names no commit"),
    ],
)
def test_wrong_words(play: Playground, words: tuple[str, ...], sentence: str) -> None:
    """Words that ask for nothing, or for two things at once, are a usage error with its sentence."""
    done = play.ratchet("profile", *words)
    assert done.code == 2, done
    assert sentence in done.err


def target(play: Playground, case: str = "adds/small", device: Device = "cpu") -> ProfileTarget:
    return ProfileTarget(TreeSpec.of(Settings(), play.repo, checkout=play.repo, device=device, gpu_uuid=None), case, seed=1)


@pytest.mark.parametrize(
    ("text", "case", "sentence"),
    [
        (ADDS, "adds/large", "adds/large is not among the cases of this tree"),
        (ADDS.replace("out = x + 1", "raise ValueError('a\\nb')"), "adds/small", "the case raised ValueError: a b"),
        (ADDS.replace("out = x + 1", "sys.exit(0)").replace("import torch", "import sys, torch"), "adds/small", "SystemExit: 0"),
        (ADDS.replace("return Workload(", "return dict("), "adds/small", "returned dict, not a Workload"),
    ],
)
def test_the_profiled_process_says_what_is_wrong(
    make: Callable[..., Playground], tmp_path: Path, text: str, case: str, sentence: str
) -> None:
    """What an author's code does wrong is one marked line and a status of its own, never a trace."""
    play = make({"bench/adds.py": text})
    written = tmp_path / "activity.json"
    command = target(play, case).command(60, trace=written)
    done = play.finish(play.start_python(*command[1:]))
    assert done.code == TROUBLE, done
    (line,) = (line for line in done.err.splitlines() if line.startswith(MARK))
    assert sentence in line
    assert not written.exists()


def test_the_profiled_process_ends_itself(make: Callable[..., Playground]) -> None:
    """It outlives neither its time limit nor a profiler that was killed and could not end it."""
    play = make({"bench/adds.py": "import time\ntime.sleep(600)\n" + ADDS})
    done = play.finish(play.start_python(*target(play).command(1)[1:]))
    assert done.code < 0


class OnGpu(ProfileTarget):
    """Says that it is on a GPU, so that ncu is asked. What it does under torch.profiler is as written down here."""

    activity = Activity(calls=10, wall_s=1e-3, kernels={"uncoalesced(const float *, float *)": 1e-3}, launches=10, gaps_s=0.0)

    def command(self, time_limit_s: float, *, trace: Path | None = None, calls: int = 1) -> list[str]:
        if trace is None:
            return super().command(time_limit_s, calls=calls)
        code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
        return [sys.executable, "-c", code, str(trace), self.activity.model_dump_json()]


def on_gpu(play: Playground) -> OnGpu:
    return OnGpu(**vars(target(play, device="cuda")))


def surroundings(play: Playground, tmp_path: Path, **tools: str) -> ProfileRequest:
    """With programs of these names, which run this Python code, ahead of any installed ones."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, body in tools.items():
        (folder / name).write_text(f"#!{sys.executable}\nimport pathlib, sys\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    environ = play.environ({"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})
    return ProfileRequest(environ, tmp_path, 60, Wish())


def test_without_permission_the_trace_stands_in(play: Playground, tmp_path: Path) -> None:
    """Where ncu may not read the counters, what torch.profiler traced is the profile, and both things are said."""
    refusal = "print('==ERROR== ERR_NVGPUCTRPERM - no permission')\nsys.exit(1)"
    looked = profile_side(on_gpu(play), surroundings(play, tmp_path, ncu=refusal, nsys="sys.exit(1)"))
    assert looked.profile is not None
    assert (looked.profile.tool, looked.profile.activity) == ("torch", OnGpu.activity)
    assert any("ERR_NVGPUCTRPERM" in sentence and "CAP_SYS_ADMIN" in sentence for sentence in looked.steps_down)
    assert INSTEAD in looked.steps_down
    assert any("nsys wrote no report" in sentence for sentence in looked.steps_down)
    assert looked.reports == {}


@pytest.mark.parametrize("wanted", [True, False])
def test_a_report_is_read_and_has_to_hold_the_wanted_kernel(
    play: Playground, tmp_path: Path, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded report becomes the profile of the side, with the trace beside it; of another kernel, it is refused."""
    recorded = tmp_path / "recorded.ncu-rep"
    recorded.write_bytes(gzip.decompress((DATA / "coalescing_bad.ncu-rep.gz").read_bytes()))
    copies = f"pathlib.Path(sys.argv[sys.argv.index('--export') + 1]).write_bytes(pathlib.Path({str(recorded)!r}).read_bytes())"
    name = read(recorded).kernels[0].name if wanted else "gemm(int)"
    monkeypatch.setattr(OnGpu, "activity", OnGpu.activity.model_copy(update={"kernels": {name: 1e-3}}))
    looked = profile_side(on_gpu(play), surroundings(play, tmp_path, ncu=copies, nsys="sys.exit(1)"))
    assert looked.profile is not None
    assert looked.profile.activity == OnGpu.activity
    if wanted:
        assert (looked.profile.tool, looked.steps_down) == ("ncu", [])
        assert looked.profile.kernels[0].duration_s
        assert looked.reports["ncu-rep"].read_bytes() == recorded.read_bytes()
    else:
        assert looked.profile.tool == "torch"
        assert any("lacks gemm, which takes most of the time" in sentence for sentence in looked.steps_down)


def test_a_report_that_cannot_be_read_is_a_step_down(play: Playground, tmp_path: Path) -> None:
    """A report that ncu left damaged costs the counters, and the sentence of its reader is said."""
    damaged = "pathlib.Path(sys.argv[sys.argv.index('--export') + 1]).write_bytes(b'no report at all')"
    looked = profile_side(on_gpu(play), surroundings(play, tmp_path, ncu=damaged, nsys="sys.exit(1)"))
    assert looked.profile is not None
    assert looked.profile.tool == "torch"
    assert len(looked.steps_down) >= 2
    assert looked.steps_down[0].startswith("The report of ncu")


def test_names_of_files_are_plain() -> None:
    """Nothing in a case's name leads out of the folder, or hides a file."""
    assert stem_of("attention/training_512") == "attention.training_512"
    assert "/" not in stem_of("../../etc/passwd")
    assert not stem_of("../x").startswith(".")
    assert stem_of("...") == "case"


def test_metrics_as_csv(tmp_path: Path) -> None:
    """Every metric of both sides is a line of the CSV file, and no cell of it is a formula."""
    kernel = KernelProfile(name="=k(1)", function="k", index=0, metrics={"a.sum": 1.5, "b.pct": 0.1})
    assert write_metrics(tmp_path / "m.csv", {"head": Profile(tool="ncu", kernels=(kernel,))})
    rows = list(csv.reader((tmp_path / "m.csv").read_text(encoding="utf-8").splitlines()))
    assert rows == [
        ["side", "launch", "kernel", "metric", "value"],
        ["head", "0", "'=k(1)", "a.sum", "1.5"],
        ["head", "0", "'=k(1)", "b.pct", "0.1"],
    ]
    assert not write_metrics(tmp_path / "none.csv", {"head": Profile(tool="torch", activity=Activity(calls=1, wall_s=0))})
    assert not (tmp_path / "none.csv").exists()
