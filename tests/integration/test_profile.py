"""Profiles of what changed, taken by `ratchet check` itself, and by hand. On the CPU: counters are for tests/gpu."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.records.files import file_stem, load
from ratchet.core.records.profile import Activity, CaseProfile, KernelProfile, Profile, Profiles
from ratchet.core.records.run import Side
from ratchet.core.records.verdict import Outcome
from ratchet.core.workload import Device
from ratchet.explain.child import TROUBLE
from ratchet.explain.child.profile_target import MARK, GoFile, read_status, target_command
from ratchet.explain.ncu import NcuOptions
from ratchet.explain.readers import read
from ratchet.explain.results import FOLDER, INDEX, add_to_index, write_metrics
from ratchet.explain.sides import (
    INSTEAD,
    MIXED,
    NOT_IN_TIME,
    ProfileRequest,
    SideProfile,
    TimeBudget,
    _counted,
    profile_sides,
    start_profilers,
)
from ratchet.explain.traces import SideTrace, worth_counters
from tests.integration.playground import ADDS, PATIENCE_S, PROOF, SLOW_ADDS, Finished, Playground, only_json
from tests.integration.test_torch_compile import COMPILED

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


@pytest.mark.slow
def test_a_slower_case_is_profiled_on_both_sides(make: Callable[..., Playground]) -> None:
    """A planted slowdown comes with the traced times of both sides, what they show, and the step down, all in the report."""
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA}, {"bench/adds.py": SLOW_ADDS})
    done = check(play, *PROOF)
    assert done.code == 1, done
    assert [each.case for each in done.report.profiles] == ["adds/small"]
    found = done.report.profiles[0]
    assert found.failed == {}
    for side in (found.head, found.reference):
        assert (side.tool, side.kernels) == ("torch", ())
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


@pytest.mark.slow
def test_no_profile_where_none_is_wanted(make: Callable[..., Playground]) -> None:
    """`--no-profile`, the setting, or no change: no profile, no folder, the same verdict."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": SLOW_ADDS})
    for words, env in ((("--no-profile",), ON), ((), {}), (("--base", "HEAD"), ON)):
        done = play.check(*words, env=env)
        assert done.report.profiles == ()
        assert not (play.repo / "results" / "nsight").exists()


@pytest.mark.slow
def test_only_so_many_cases_are_profiled(make: Callable[..., Playground]) -> None:
    """The worst slowdown comes first, proven or not, and what the cap leaves out is named."""
    slower = SLOW_EXTRA.replace("4 * REPEAT", "12 * REPEAT")
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA}, {"bench/adds.py": SLOW_ADDS, "bench/extra.py": slower})
    done = check(play, RATCHET_PROFILE_CASES="1")
    assert set(done.outcomes().values()) == {Outcome.SLOWER}
    assert [each.case for each in done.report.profiles] == ["extra/small"]
    assert done.report.unprofiled == ("adds/small",)
    assert "`adds/small` also changed, but `profile_cases` limits how many cases a run profiles" in done.markdown
    assert "Not profiled: 1 more changed case;" in done.out


@pytest.mark.slow
def test_a_case_that_fails_when_profiled_keeps_its_verdict(make: Callable[..., Playground]) -> None:
    """A head that cannot be called under the profiler is slower all the same, and the report says why it has no profile."""
    trick = "        if torch.autograd.profiler._is_profiler_enabled:\n            raise OSError('not here')\n"
    head = SLOW_ADDS.replace("    def run():\n", "    def run():\n" + trick)
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": head})
    done = check(play)
    assert done.code == 3, done
    found = done.report.profiles[0]
    assert found.head is None
    assert "Under torch.profiler OSError: not here" in found.failed["head"]
    assert found.reference is not None
    assert "No profile of the head" in done.markdown
    assert_clean(play)


@pytest.mark.slow
def test_a_check_imports_no_tree_again_for_a_trace(make: Callable[..., Playground]) -> None:
    """What torch.profiler sees of a changed case comes from workers of the processes that were measured."""
    note = "import os\nopen(os.environ['IMPORTS'], 'a').write('x')\n"
    play = make({"bench/adds.py": note + ADDS}, {"bench/adds.py": note + SLOW_ADDS})
    imports = play.temp / "imports"
    done = check(play, IMPORTS=str(imports))
    imports_of_check = len(imports.read_text(encoding="utf-8"))
    imports.unlink()
    assert done.report.profiles[0].head is not None
    check(play, "--no-profile", IMPORTS=str(imports))
    assert imports_of_check == len(imports.read_text(encoding="utf-8"))
    imports.unlink()


@pytest.mark.slow
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


def spec(play: Playground, device: Device = "cpu") -> TreeSpec:
    return TreeSpec.of(Settings(), play.repo, checkout=play.repo, device=device, gpu_uuid=None)


def called(
    play: Playground, folder: Path, *cases: str, time_limit_s: float = PATIENCE_S, calls_s: float | None = None
) -> tuple[Finished, dict[str, str]]:
    """How the profiled process ends, and what it says of each case. ``calls_s`` limits what comes after the imports."""
    go = GoFile(folder / "go") if calls_s else None
    files = {"status": folder / "status", "turn": folder / "turn", "go": go and go.path}
    child = play.start_warm(*target_command(spec(play), cases, 1, time_limit_s, **files)[1:])
    if go and calls_s:
        go.release(cases, calls_s)
    return play.finish(child), read_status(folder / "status")


@pytest.mark.parametrize(
    ("text", "case", "sentence"),
    [
        (ADDS, "adds/large", "adds/large is not among the cases of this tree"),
        (ADDS.replace("out = x + 1", "raise ValueError('a\\nb')"), "adds/small", "the case raised ValueError: a b"),
        (ADDS.replace("out = x + 1", "sys.exit(0)").replace("import torch", "import sys, torch"), "adds/small", "SystemExit: 0"),
        (ADDS.replace("return Workload(", "return dict("), "adds/small", "benchmark adds returned dict: return a function"),
    ],
)
def test_the_profiled_process_says_what_is_wrong(
    make: Callable[..., Playground], tmp_path: Path, text: str, case: str, sentence: str
) -> None:
    """What an author's code does wrong is one marked line and a status of its own, never a trace."""
    done, status = called(make({"bench/adds.py": text}), tmp_path, case)
    assert done.code == TROUBLE, done
    (line,) = (line for line in done.err.splitlines() if line.startswith(MARK))
    assert sentence in line
    assert sentence in status[case]


@pytest.mark.slow
def test_a_case_that_raises_costs_no_other_case(make: Callable[..., Playground], tmp_path: Path) -> None:
    """One process calls all cases in the order that was asked for, and says which of them came through."""
    play = make({"bench/adds.py": ADDS, "bench/bad.py": EXTRA.replace("out = x + 1", "raise ValueError('no')")})
    done, status = called(play, tmp_path, "adds/small", "extra/small", "adds/none")
    assert done.code == 0, done
    assert list(status) == ["adds/small", "extra/small", "adds/none"]
    assert status["adds/small"] == ""
    assert "the case raised ValueError: no" in status["extra/small"]
    assert "not among the cases" in status["adds/none"]


@pytest.mark.slow
def test_the_profiled_process_compiles_each_case_as_a_worker_does(make: Callable[..., Playground], tmp_path: Path) -> None:
    """The kernels with counters are those that were timed: for this case's size, also after a case of another size."""
    done, status = called(make({"bench/scale.py": COMPILED}), tmp_path, "scale/n_16", "scale/n_32")
    assert (done.code, status) == (0, {"scale/n_16": "", "scale/n_32": ""}), done


@pytest.mark.slow
def test_the_profiled_process_keeps_what_came_before_its_limit(make: Callable[..., Playground], tmp_path: Path) -> None:
    """When the time is over, the case that is being called has no line, those before it keep theirs, and the end is no error."""
    endless = EXTRA.replace("out = x + 1", "time.sleep(600)")
    play = make({"bench/adds.py": ADDS, "bench/bad.py": endless})
    done, status = called(play, tmp_path, "adds/small", "extra/small", calls_s=8)
    assert (done.code, status) == (0, {"adds/small": ""}), done


@pytest.mark.slow
def test_the_profiled_process_ends_itself(make: Callable[..., Playground], tmp_path: Path) -> None:
    """It outlives neither its time limit nor a profiler that was killed, whatever the author's code catches."""
    deaf = "import time\nwhile True:\n    try:\n        time.sleep(600)\n    except BaseException:\n        pass\n"
    done, status = called(make({"bench/adds.py": deaf + ADDS}), tmp_path, "adds/small", time_limit_s=5)
    assert (done.code, status) == (1, {}), done


@pytest.mark.slow
@pytest.mark.parametrize(("held", "builds"), [(fcntl.LOCK_EX, False), (fcntl.LOCK_SH, True)])
def test_processes_of_one_turn_use_the_device_one_after_the_other(
    make: Callable[..., Playground], tmp_path: Path, held: int, builds: bool
) -> None:
    """Whoever comes second waits after its imports: what one process does would count as the other's memory traffic.

    While the other one builds its first case, it may do so, too.
    """
    built = tmp_path / "built"
    play = make({"bench/adds.py": ADDS.replace("    x = torch", f"    open({str(built)!r}, 'w').close()\n    x = torch", 1)})
    with (tmp_path / "turn").open("w") as turn:
        fcntl.flock(turn, held)
        done, status = called(play, tmp_path, "adds/small", calls_s=5)
    assert (done.code, status, built.exists()) == (TROUBLE, {}, builds)
    assert called(play, tmp_path, "adds/small")[1] == {"adds/small": ""}


@pytest.mark.slow
def test_the_profiled_process_imports_ahead_and_calls_what_it_is_told_to(make: Callable[..., Playground], tmp_path: Path) -> None:
    """It calls nothing until it may go, and then the named cases alone, in its own order."""
    play = make({"bench/adds.py": ADDS, "bench/extra.py": EXTRA, "bench/more.py": ADDS.replace("def adds", "def more")})
    cases = ("more/small", "adds/small", "extra/small")
    go = GoFile(tmp_path / "go")
    command = target_command(spec(play), cases, 1, 60, status=tmp_path / "status", turn=tmp_path / "turn", go=go.path)
    process = play.start_warm(*command[1:])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    assert read_status(tmp_path / "status") == {}
    go.release(["extra/small", "more/small"], 60)
    done = play.finish(process)
    assert (done.code, read_status(tmp_path / "status")) == (0, {"more/small": "", "extra/small": ""}), done


@pytest.mark.slow
def test_a_profiled_process_that_nobody_needs_ends(make: Callable[..., Playground], tmp_path: Path) -> None:
    """Where the file is closed without cases, as by the kernel when its owner dies, nothing is called, and that is no error."""
    play = make({"bench/adds.py": ADDS})
    go = GoFile(tmp_path / "go")
    go.close()
    paths = {"status": tmp_path / "status", "turn": tmp_path / "turn", "go": go.path}
    command = target_command(spec(play), ("adds/small",), 1, 60, **paths)
    done = play.finish(play.start_warm(*command[1:]))
    assert (done.code, done.err, read_status(tmp_path / "status")) == (0, "", {})


# Counters, with programs that stand in for ncu: they do as it does with the cases in its argument.

SCALE = "scale(const float *, float *)"
"""The kernel of the recorded report."""
BAD = "uncoalesced"


def activity(**ran: int) -> Activity:
    """Ten calls that launch these kernels so often; each takes a microsecond."""
    return Activity(
        calls=10,
        wall_s=1e-3,
        kernels={name: count * 1e-5 for name, count in ran.items()},
        ran={name: 10 * count for name, count in ran.items()},
        launches=10 * sum(ran.values()),
        gaps_s=0.0,
    )


RECORDED = f"""
recorded = {str(DATA / "coalescing_bad.ncu-rep.gz")!r}
import gzip, json
words = sys.argv[1:]
report = pathlib.Path(words[words.index("--export") + 1])
argument = json.loads(words[-1])
with report.with_suffix(".words").open("a") as said:
    said.write(json.dumps(words) + "\\n")
lines = [json.dumps(dict(case=case, trouble="")) for case in argument["cases"]]
pathlib.Path(argument["status"]).write_text("\\n".join(lines))
report.write_bytes(gzip.decompress(pathlib.Path(recorded).read_bytes()))
"""
"""Says that all cases came through, and leaves the recorded report, of one launch."""
RAISES = RECORDED.replace('trouble=""', 'trouble="the case raised OSError: no"') + "sys.exit(70)"


def profiled(
    play: Playground,
    tmp_path: Path,
    traced: Mapping[str, Mapping[Side, SideTrace]],
    *,
    timeout_s: float = 60,
    begun_for: Mapping[str, Mapping[Side, SideTrace]] | None = None,
    **tools: str,
) -> dict[str, dict[Side, SideProfile]]:
    """Profile with programs of these names, which run this Python code, ahead of any installed ones.

    With ``begun_for``, ncu is started for these cases before.
    """
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, body in tools.items():
        (folder / name).write_text(f"#!{sys.executable}\nimport pathlib, sys\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    environ = play.environ({"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})
    trees: dict[Side, TreeSpec] = {side: spec(play, "cuda") for side in next(iter(traced.values()))}
    request = ProfileRequest(trees, 1, environ, tmp_path, TimeBudget(timeout_s))
    options = NcuOptions()
    with contextlib.ExitStack() as running:
        ready = start_profilers(request, dict.fromkeys(begun_for, options), begun_for, running) if begun_for else None
        return profile_sides(request, dict.fromkeys(traced, options), traced, ready)


WAITS = """
import fcntl, json
go = json.loads(sys.argv[-1])["go"]
if go:
    with open(go) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        pathlib.Path(go).with_suffix(".read").write_text(file.read())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "served"),
    [
        ({"a/b": {"scale": 1}}, True),
        ({"a/b": {"scale": 1}, "a/c": {"other": 2}}, True),  # more cases and kernels than turned out to be needed
        ({"a/c": {"scale": 1}}, False),
        ({"a/b": {"other": 1}}, False),
    ],
)
def test_processes_that_began_before_the_verdict_serve_it_if_they_can(
    play: Playground, tmp_path: Path, begun: dict[str, dict[str, int]], served: bool
) -> None:
    """They get the cases that changed after all; where they lack a case or a kernel, others are started."""
    traces = {case: head(activity(**kernels)) for case, kernels in begun.items()}
    found = profiled(play, tmp_path, {"a/b": head(activity(scale=1))}, begun_for=traces, ncu=WAITS + RECORDED)["a/b"]["head"]
    assert found.profile.tool == "ncu"
    assert found.profile.kernels[0].function == "scale"
    released = tmp_path / "go.read"
    assert (json.loads(released.read_text() or "{}").get("cases") if released.exists() else None) == (["a/b"] if served else None)


def head(found: Activity | None, trouble: str = "") -> dict[Side, SideTrace]:
    return {"head": SideTrace(found, trouble)}


def said(folder: Path, stem: str) -> list[list[str]]:
    """The words that each process of ncu got which was to write this report."""
    return [json.loads(line) for line in (folder / f"{stem}.words").read_text(encoding="utf-8").splitlines()]


def test_without_permission_the_trace_stands_in(play: Playground, tmp_path: Path) -> None:
    """Where ncu may not read the counters, what torch.profiler traced is the profile, and both things are said."""
    refusal = "print('==ERROR== ERR_NVGPUCTRPERM - no permission')\nsys.exit(1)"
    found = profiled(play, tmp_path, {"a/b": head(activity(scale=1))}, ncu=refusal)["a/b"]["head"]
    assert (found.profile.tool, found.profile.activity) == ("torch", activity(scale=1))
    assert any("ERR_NVGPUCTRPERM" in sentence and "CAP_SYS_ADMIN" in sentence for sentence in found.steps_down)
    assert INSTEAD in found.steps_down
    assert found.report is None


def test_without_any_profiler_both_errors_are_said(play: Playground, tmp_path: Path) -> None:
    """Where torch.profiler saw nothing and ncu fails, both say why, and there is no profile."""
    found = profiled(play, tmp_path, {"a/b": head(None, "Under torch.profiler no.")}, ncu="sys.exit(3)")["a/b"]["head"]
    assert found.profile is None
    assert found.steps_down[0] == "Under torch.profiler no."
    assert "ncu failed with status 3" in found.steps_down[1]
    assert len(found.steps_down) == 2


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["scale", "gemm"])
def test_a_report_is_read_and_has_to_hold_the_wanted_kernel(play: Playground, tmp_path: Path, wanted: str) -> None:
    """A recorded report becomes the profile of the side, with the trace beside it; of another kernel, it is refused."""
    trace = activity(**{wanted: 1})
    found = profiled(play, tmp_path, {"a/b": head(trace)}, ncu=RECORDED)["a/b"]["head"]
    assert found.profile.activity == trace
    if wanted == "scale":
        assert (found.profile.tool, found.steps_down) == ("ncu", [])
        assert found.profile.kernels[0].duration_s
        assert found.report == tmp_path / "a.b.head.ncu-rep"
    else:
        assert found.profile.tool == "torch"
        assert any("lacks gemm, which takes most of the time" in sentence for sentence in found.steps_down)


def test_a_report_that_cannot_be_read_is_a_step_down(play: Playground, tmp_path: Path) -> None:
    """A report that ncu left damaged costs the counters, and the sentence of its reader is said."""
    damaged = RECORDED + "report.write_bytes(b'no report at all')"
    found = profiled(play, tmp_path, {"a/b": head(activity(scale=1))}, ncu=damaged)["a/b"]["head"]
    assert found.profile.tool == "torch"
    assert found.steps_down[0].startswith("The report of ncu")


def test_both_sides_replay_the_kernels_that_matter_on_either(play: Playground, tmp_path: Path) -> None:
    """Both sides count kernels of the same names, so that none seems to be gone, and the profile says which are left out."""
    sides: dict[Side, SideTrace] = {
        "reference": SideTrace(activity(scale=96, fill=4)),
        "head": SideTrace(activity(scale=90, fill=6, cast=3, add=1)),
    }
    found = profiled(play, tmp_path, {"a/b": sides}, ncu=RECORDED)["a/b"]
    for side in sides:
        (words,) = said(tmp_path, f"a.b.{side}")
        assert "regex:^(scale|fill)$" in words
    left_out = (
        "2 of 4 kernels, 96 % of the call's time on the GPU, were profiled; the others are short or hardly differ: cast, add."
    )
    assert left_out in found["head"].profile.warnings
    assert not any("were profiled" in warning for warning in found["reference"].profile.warnings)


@pytest.mark.parametrize(
    ("reference", "now", "chosen"),
    [
        ({"forward": 50, "backward": 50}, {"forward": 50, "backward": 150}, ["backward"]),
        ({"forward": 51, "backward": 50}, {"forward": 50, "backward": 150}, ["backward"]),  # as noisy as traces are
        ({"forward": 50, "split": 25, "sum": 25}, {"forward": 50, "backward": 150}, ["split", "sum", "backward"]),
        ({"forward": 100}, {"forward": 100, "copy": 50}, ["forward", "copy"]),  # so that each side has a kernel
        ({"forward": 50, "backward": 50}, {"forward": 50, "backward": 51}, ["forward", "backward"]),  # nothing stands out
        ({"forward": 90, "short": 3}, {"forward": 90, "short": 4}, ["forward"]),
    ],
)
def test_kernels_that_hardly_differ_are_not_counted(reference: dict[str, int], now: dict[str, int], chosen: list[str]) -> None:
    """Of two sides, those kernels are counted in which nearly all of the difference lies; each costs seconds."""
    assert worth_counters([activity(**reference), activity(**now)]) == chosen


def test_cases_share_one_process_a_side(play: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches belong to the cases in their order, as many as their traces show; both name the one report that they share."""
    traced = {"a/b": head(activity(scale=1)), "c/d": head(activity(scale=1, gemm=1)), "e/f": head(activity(many=17))}

    def both(path: Path, environ: Mapping[str, str]) -> Profile:
        whole = read(path, environ)
        (launch,) = whole.kernels
        other = launch.model_copy(update={"name": "gemm", "function": "gemm"})
        return whole.model_copy(update={"kernels": (launch, launch, other)})

    monkeypatch.setattr("ratchet.explain.readers.read", both)
    found = profiled(play, tmp_path, traced, ncu=RECORDED)
    profiles = {case: one["head"].profile for case, one in found.items()}
    kernels = {case: [kernel.function for kernel in one.kernels] for case, one in profiles.items() if one}
    assert kernels == {"a/b": ["scale"], "c/d": ["scale", "gemm"], "e/f": []}
    (report,) = {found[case]["head"].report for case in ("a/b", "c/d")}
    assert report.name.startswith("a.b+1.")
    (words,) = said(tmp_path, report.stem)
    assert "regex:^(scale|gemm)$" in words
    assert words[words.index("--launch-count") + 1] == "32"
    (words,) = said(tmp_path, "e.f.head")  # too many launches for the others to wait for
    assert "regex:^(many)$" in words
    assert words[words.index("--launch-count") + 1] == "16"


def test_other_launches_than_in_the_traces_are_nobody_s(play: Playground, tmp_path: Path) -> None:
    """Where nobody can say whose launches a shared report holds, the traces stand in; calls that differ are profiled apart."""
    differs = activity(scale=1).model_copy(update={"ran": {"scale": 15}})
    traced = {"a/b": head(activity(scale=1)), "c/d": head(activity(scale=2)), "e/f": head(differs)}
    found = profiled(play, tmp_path, traced, ncu=RECORDED)
    assert [found[case]["head"].steps_down for case in traced] == [[MIXED, INSTEAD], [MIXED, INSTEAD], []]
    assert found["e/f"]["head"].report == tmp_path / "e.f.head.ncu-rep"


@pytest.mark.parametrize(
    ("failed", "launches", "told_apart"),
    [
        ((), ["scale", "scale", "scale"], True),
        (("c/d", "e/f"), ["scale", "scale"], True),  # the second is one of a case that failed later
        (("a/b", "e/f"), ["scale"], True),  # those that failed launched nothing
        (("a/b", "e/f"), ["scale", "scale"], False),  # the first may be of a case that failed before
        (("a/b",), ["scale", "scale", "scale"], False),
    ],
)
def test_no_case_gets_the_launches_of_one_that_failed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: tuple[str, ...], launches: list[str], told_apart: bool
) -> None:
    """A case that fails may have launched some kernels, which nothing tells apart from those of the next case."""
    kernels = tuple(KernelProfile(name=name, function=name, index=place) for place, name in enumerate(launches))
    monkeypatch.setattr("ratchet.explain.readers.read", lambda *_: Profile(tool="ncu", kernels=kernels))
    (tmp_path / "r.ncu-rep").touch()
    cases = ("a/b", "c/d", "e/f")
    status = {case: "no" if case in failed else "" for case in cases}
    counted = _counted(tmp_path / "r.ncu-rep", dict.fromkeys(cases, activity(scale=1)), ("scale",), status, None, {})
    for case in cases:
        found = counted[case]
        if case in failed:
            assert str(found).startswith("Under ncu no")
        elif told_apart:
            assert isinstance(found, Profile)
            assert len(found.kernels) == 1
        else:
            assert str(found) == MIXED


def test_a_case_that_fails_under_ncu_costs_no_other_case(play: Playground, tmp_path: Path) -> None:
    """What one case raised, and that the time was over before another one, is said of each; the traces stand in."""
    body = RECORDED.replace("lines = [", "lines = [json.dumps({'case': 'c/d', 'trouble': 'the case raised OSError: no'})] or [")
    traced = {"a/b": head(activity(scale=1)), "c/d": head(activity(scale=1))}
    found = profiled(play, tmp_path, traced, ncu=body)
    assert found["c/d"]["head"].steps_down == ["Under ncu the case raised OSError: no", INSTEAD]
    assert found["a/b"]["head"].steps_down == [NOT_IN_TIME, INSTEAD]


def test_a_report_of_a_failure_is_that_of_the_cases_that_came_through(play: Playground, tmp_path: Path) -> None:
    """An ncu that fails after a case came through has that case's counters in its report; one that failed at once has none."""
    came = profiled(play, tmp_path, {"a/b": head(activity(scale=1))}, ncu=RECORDED + "sys.exit(9)")["a/b"]["head"]
    assert came.profile.tool == "ncu"
    (tmp_path / "second").mkdir()
    failed = profiled(play, tmp_path / "second", {"a/b": head(activity(scale=1))}, ncu=RAISES)["a/b"]["head"]
    assert (failed.profile.tool, failed.steps_down[0]) == ("torch", "Under ncu the case raised OSError: no")


def test_where_time_is_short_fewer_counters_are_collected(play: Playground, tmp_path: Path) -> None:
    """A full set that would not end in time is cut to the sections that the diagnosis reads, and the profile says so."""
    found = profiled(play, tmp_path, {"a/b": head(activity(scale=16))}, ncu=RECORDED, timeout_s=20)["a/b"]["head"]
    (words,) = said(tmp_path, "a.b.head")
    assert "--section" in words
    assert "--set" not in words
    assert any(warning.startswith("All counters would take about 30 s, and 20 s were left") for warning in found.profile.warnings)


def test_imports_are_not_paid_from_the_time_limit() -> None:
    """Twice the seconds that a host needed to import are added to what ncu may take, and are not missing afterwards."""
    budget = TimeBudget(60, import_s=20)
    with budget.spend() as limit:
        assert limit == 100
    assert budget.left_s == 60


def test_a_shared_report_goes_with_the_last_case_that_names_it(tmp_path: Path) -> None:
    """A new profile of one case keeps the report that another one still names; no other file is touched."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    for name in ("a+1.head.ncu-rep", "own.ncu-rep"):
        (folder / name).touch()
    shared = {"head.ncu-rep": f"{FOLDER}/a+1.head.ncu-rep"}
    add_to_index(folder, [CaseProfile(case="a", files=shared), CaseProfile(case="b", files=shared)])
    add_to_index(folder, [CaseProfile(case="a")])
    assert (folder / "a+1.head.ncu-rep").exists()
    add_to_index(folder, [CaseProfile(case="b")])
    assert {path.name for path in folder.iterdir()} == {"own.ncu-rep", INDEX}


def test_names_of_files_are_plain() -> None:
    """Nothing in a case's name leads out of the folder, or hides a file."""
    assert file_stem("attention/training_512") == "attention.training_512"
    assert "/" not in file_stem("../../etc/passwd")
    assert not file_stem("../x").startswith(".")
    assert file_stem("...") == "case"


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
