"""Ask other evaluators about the files of tests/cheats and tests/honest, on the CPU.

    python research/other_evaluators.py gpu-mode CLONE FILE...        CLONE of gpu-mode/reference-kernels
    python research/other_evaluators.py KernelBench CLONE FILE...     CLONE of ScalingIntelligence/KernelBench
    python research/other_evaluators.py flashinfer-bench CLONE FILE...    with its requirements, but for flashinfer-python

Each evaluator runs as it is. Only what asks torch for a GPU is replaced (`GPU_BY_CPU`): a clock of the host stands in for
CUDA's events. It has the options that its own documentation has. What it says of the results does not depend on how busy the
machine is; the times do. Every run is confined, since some cheats stop processes and rewrite files. Of flashinfer-bench
only the comparison runs, since it times by CUPTI; nothing of pygpubench does, which is a CUDA extension.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ratchet.lab.child import containment

LIMIT_S = 240
GPU_BY_CPU = """
import contextlib, time, torch
class _Event:
    def __init__(self, **_): self.at = 0.0
    def record(self): self.at = time.perf_counter()
    def elapsed_time(self, end): return (end.at - self.at) * 1e3
torch.cuda.Event, torch.cuda.synchronize = _Event, lambda *_, **__: None
torch.cuda.set_device = torch.cuda.reset_peak_memory_stats = torch.cuda.empty_cache = lambda *_, **__: None
torch.cuda.get_device_name, torch.cuda.is_available = lambda *_, **__: "CPU", lambda: True
torch.cuda.device, torch.cuda.current_device = lambda *_: contextlib.nullcontext(), lambda: 0
def clear_l2_cache(*_, **__): pass
"""
INPUTS = """
import sys; sys.path[:0] = {folders}
import torch
def drawn(spec, generator):
    sizes, _, rest = spec.partition(":")
    shape, (kind, _, limits) = tuple(map(int, sizes.split("x"))), (rest or "float32").partition(":")
    if "float" in kind:
        return torch.randn(shape, generator=generator).to(getattr(torch, kind))
    low, high = map(int, (limits or "0..2").split(".."))
    return torch.randint(low, high, shape, generator=generator).to(getattr(torch, kind))
def inputs_of(seed):
    if {maker}:
        module, function = {maker}
        made = getattr(__import__(module), function)(seed, "cpu")
        return list(made) if isinstance(made, (tuple, list)) else [made]
    generator = torch.Generator().manual_seed(seed)
    return [drawn(spec, generator) for spec in {specs}]
"""


def main() -> None:
    tool, clone, *files = sys.argv[1:]
    for file in map(Path, files):
        ours = outcome(tool, Path(clone), file.absolute(), "candidate")
        base = outcome(tool, Path(clone), file.absolute(), "baseline") if "mean" in ours else ours
        if "right" in ours:
            said = "right"
        elif "mean" in base:
            said = f"right, {base['mean'] / ours['mean']:.2f} times as fast{', flagged' if 'flagged' in ours else ''}"
        elif "mean" in ours:
            said = f"right; not the baseline: {base['said']}"
        else:
            said = f"refused: {ours['said']}"
        print(f"{tool} {file.parent.name}/{file.stem}: {said}", flush=True)


def outcome(tool: str, clone: Path, file: Path, side: str) -> dict[str, Any]:
    """Return the mean time of a side in seconds, or what was said against it; in a confined process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--confined", tool, str(clone), str(file), side, folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return {"said": f"no end within {LIMIT_S} s"}
        answer = Path(folder, "answer.json")
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else {"said": last[:200]}
        return found


def confined(tool: str, clone: Path, file: Path, side: str, folder: Path) -> None:
    copy = folder / "files"
    shutil.copytree(file.parent, copy)
    (folder / "tmp").mkdir()
    text = file.read_text(encoding="utf-8")
    named = re.search(r"^# baseline: (\w+)$", text, re.MULTILINE)
    beside = copy / "baselines" if (copy / "baselines").is_dir() else copy
    common = Path(__file__).parents[1] / "tests" / "cheats" / "baseline_of_all.py"
    baseline = beside / f"{named[1]}.py" if named else common
    submission = baseline if side == "baseline" else copy / file.name
    maker = re.search(r"--inputs (\w+)\.py:(\w+)", text)
    specs = re.findall(r"--input (\S+)", text) or ["64x64"]
    inputs = INPUTS.format(folders=[str(copy), str(beside)], maker=maker.groups() if maker else None, specs=specs)
    if not {"pid", "mount"} <= set(containment.enter(("pid", "ipc", "net", "mount"), folder, (file.parent, clone, folder))):
        raise SystemExit("this machine confines no process: some of the files would reach others")
    containment.give_up_rights(())
    os.chdir(folder)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    evaluators = {"gpu-mode": gpu_mode, "KernelBench": kernelbench, "flashinfer-bench": flashinfer}
    found = evaluators[tool](clone, baseline, submission, inputs)
    (folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")


def loading(path: Path, name: str) -> str:
    """Return code that gives the function of a file another name."""
    return (
        "import importlib.util as _u, sys as _s\n"
        f"_spec = _u.spec_from_file_location({path.stem!r}, {str(path)!r}); _m = _u.module_from_spec(_spec)\n"
        f"_s.modules[{path.stem!r}] = _m; _spec.loader.exec_module(_m)\n{name} = _m.kernel\n"
    )


def gpu_mode(clone: Path, baseline: Path, submission: Path, inputs: str) -> dict[str, object]:
    """Run the evaluator of the second set of problems in the mode of its leaderboard, which checks each timed call."""
    theirs = clone / "problems" / "pmpp_v2"
    Path("eval.py").write_text((theirs / "eval.py").read_text(encoding="utf-8"), encoding="utf-8")
    Path("utils.py").write_text((theirs / "utils.py").read_text(encoding="utf-8") + GPU_BY_CPU, encoding="utf-8")
    Path("submission.py").write_text(loading(submission, "_f") + "def custom_kernel(data): return _f(*data)\n", encoding="utf-8")
    reference = "from utils import make_match_reference\ndef generate_input(seed): return tuple(inputs_of(seed))\n"
    check = "check_implementation = make_match_reference(lambda data: _b(*data), rtol=1e-3, atol=1e-5)\n"
    Path("reference.py").write_text(reference + inputs + loading(baseline, "_b") + check, encoding="utf-8")
    Path("cases.txt").write_text("seed: 4242", encoding="utf-8")
    log = os.open("log.txt", os.O_CREAT | os.O_RDWR)
    environ = {**os.environ, "POPCORN_FD": str(log), "POPCORN_SEED": str(int.from_bytes(os.urandom(3), "big")), "PYTHONPATH": "."}
    done = subprocess.run(
        [sys.executable, "eval.py", "leaderboard", "cases.txt"],
        env=environ, pass_fds=[log], capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    said = dict(line.split(": ", 1) for line in Path("log.txt").read_text(encoding="utf-8").splitlines() if ": " in line)
    if said.get("check") == "pass":
        return {"mean": float(said["benchmark.0.mean"]) / 1e9}
    return {"said": said.get("benchmark.0.error") or done.stderr.strip()[-200:]}


def kernelbench(clone: Path, baseline: Path, submission: Path, inputs: str) -> dict[str, object]:
    """Run `eval_kernel_against_ref` with the clock of the host: five correct trials, and a hundred timed ones."""
    import types

    exec(GPU_BY_CPU, {})  # noqa: S102
    import torch

    sys.path.insert(0, str(clone / "src"))
    tools = types.ModuleType("kernelbench.utils")  # theirs imports clients of language models
    tools.get_gpu_vendor = lambda *_: "nvidia"  # type: ignore[attr-defined]
    sys.modules["kernelbench.utils"] = tools
    theirs, timing = importlib.import_module("kernelbench.eval"), importlib.import_module("kernelbench.timing")

    timing.clear_l2_cache = lambda *_, **__: None  # type: ignore[attr-defined]
    model = "import torch\nclass {name}(torch.nn.Module):\n    def forward(self, *x): return {function}(*x)\n"
    original = inputs + loading(baseline, "_b") + model.format(name="Model", function="_b")
    original += "def get_init_inputs(): return []\ndef get_inputs(): return inputs_of(torch.randint(0, 2**31, (1,)).item())\n"
    custom = loading(submission, "_f") + model.format(name="ModelNew", function="_f")
    found = theirs.eval_kernel_against_ref(
        original, custom, num_correct_trials=5, num_perf_trials=100, measure_performance=True, timing_method="host_time",
        device=torch.device("cpu"),
    )  # fmt: skip
    if found is None or not found.correctness or not found.runtime_stats:
        return {"said": str(found.metadata if found else "not loaded")[:200]}
    flagged = {"flagged": True} if found.metadata.get("excessive_speedup") else {}
    return {"mean": found.runtime_stats["mean"] / 1e3, **flagged}


def flashinfer(clone: Path, baseline: Path, submission: Path, inputs: str) -> dict[str, object]:
    """Run `DefaultEvaluator.check_correctness`, with the number of trials and the tolerances that are its defaults."""
    import types

    place: dict[str, Any] = {}
    exec(GPU_BY_CPU + inputs + loading(baseline, "_b") + loading(submission, "_f"), place)  # noqa: S102
    sys.path.insert(0, str(clone))
    clock = types.ModuleType("flashinfer.testing")
    clock.bench_gpu_time_with_cupti = None  # type: ignore[attr-defined]
    sys.modules.update({"flashinfer": types.ModuleType("flashinfer"), "flashinfer.testing": clock})
    theirs = importlib.import_module("flashinfer_bench.bench.evaluators.default").DefaultEvaluator
    trials = [place["inputs_of"](int.from_bytes(os.urandom(3), "big")) for _ in range(3)]
    expected = [found if isinstance(found := place["_b"](*trial), tuple | list) else [found] for trial in trials]
    runnable = functools.partial(place["_f"])
    runnable.metadata = types.SimpleNamespace(destination_passing_style=False)  # type: ignore[attr-defined]
    definition = types.SimpleNamespace(torch_output_dtypes=[one.dtype for one in expected[0]])
    settings = types.SimpleNamespace(rtol=1e-2, atol=1e-2, required_matched_ratio=None)
    refusals: list[object] = []
    sys.modules[theirs.__module__].make_eval = lambda **said: refusals.append(said["status"])  # type: ignore[attr-defined]
    correct, _ = theirs.check_correctness(definition, runnable, trials, expected, settings, "", "cpu")
    return {"said": str(refusals[0])} if refusals or correct is None else {"right": True}


if __name__ == "__main__":
    if sys.argv[1] == "--confined":
        _, _, tool_, clone_, file_, side_, folder_ = sys.argv
        confined(tool_, Path(clone_), Path(file_), side_, Path(folder_))
    else:
        main()
