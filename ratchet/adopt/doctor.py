"""Examine a machine for `ratchet doctor`: each thing that a check needs, whether it is there, and what to do where it is not.

Only `ratchet doctor` calls `examine` and `check_lines`. It asks the GPU's vendor, reads files below /proc, and runs
git, nvcc, ncu and a Python that imports torch. It changes nothing.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ratchet import tools
from ratchet.core import units
from ratchet.core.device.environment import ask, installed_version, program_version
from ratchet.core.device.fitness import inspect, problems_before, warnings_before
from ratchet.core.device.gpu import Gpu, Vendor
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import CudaBuildError, RatchetError, UsageError
from ratchet.core.request import Request, results_folder
from ratchet.core.untrusted import clean
from ratchet.nvcc import find_nvcc

CheckState = Literal["ok", "missing", "warning"]
ON_CPU = "checks run on the CPU"
OLDEST_GIT = (2, 20)
SPACE_BYTES = 2 * 2**30
"""Free space below which worktrees and compiled kernels may not fit."""
_CAP_SYS_ADMIN = 1 << 21  # capabilities(7); it lets a process read hardware counters that are closed to others
_TORCH = """
import json, torch
seen = torch.cuda.is_available()
name = torch.cuda.get_device_name(0) if seen else None
print(json.dumps({"version": str(torch.__version__), "cuda": torch.version.cuda, "gpu": name}))
"""


@dataclass(frozen=True)
class Check:
    """One line of the report. ``cure`` is empty where there is nothing to do."""

    name: str
    state: CheckState
    detail: str
    cure: str = ""
    unfit: bool = False
    """Nothing should be measured here before this is put right."""


def examine(root: Path, gpu_index: int | None, *, results: Path | None = None, vendor: Vendor | None = None) -> list[Check]:
    """Return all checks of the repository at ``root`` and of this machine. Takes as long as importing torch once."""
    python = Check("Python", "ok", f"{platform.python_version()} at {sys.executable}")  # an older one does not install ratchet
    checks = [python, *check_git(root), check_torch(Path(sys.executable))]
    vendor = vendor or vendor_here()
    try:
        gpu = vendor.choose_gpu(gpu_index, os.environ)
    except UsageError as error:
        gpu = None
        checks.append(Check("GPU", "missing", error.message, error.hint, unfit=True))
    else:
        checks.append(check_gpu(gpu, vendor))
    without = Check("counters", "warning", f"{vendor.no_counters} Profiles come from torch.profiler.")
    checks += [check_triton(), *([without] if vendor.no_counters else [check_nvcc(), check_ncu()])]
    if gpu is not None:
        checks += [] if vendor.no_counters else [check_profiling()]
        checks += [check_card(gpu), *check_fitness(gpu)]
    checks.append(check_containment(Path(tempfile.gettempdir())))
    checks.append(check_settings(Request(root, (), options={"results": str(results.absolute()) if results else None})))
    return [*checks, check_space(Path(tempfile.gettempdir()))]


def check_git(root: Path) -> list[Check]:
    """Check git, and whether it offers an earlier commit to compare with."""
    program = shutil.which("git")
    if program is None:
        return [Check("git", "missing", "not on the PATH", "Install git 2.20 or newer.")]
    git = Path(program)
    version = program_version(git) or "unknown"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_GIT:
        return [Check("git", "warning", f"{version} is older than 2.20", "Install git 2.20 or newer.")]
    return [Check("git", "ok", version), check_repository(git, root)]


def check_repository(git: Path, root: Path) -> Check:
    """Check whether ``root`` lies in a repository with a commit before this one."""
    asked = ask([git, "rev-parse", "--is-shallow-repository"], folder=root)
    if asked.returncode != 0:
        if "not a git repository" in asked.stderr:  # git's own words where it speaks another language
            return Check("repository", "missing", f"{root} is not inside one", "Go to yours, or make one with `git init`.")
        return Check("repository", "missing", clean(asked.stderr) or "git gives no reason", "Do what git says, then try again.")
    has_previous = ask([git, "rev-parse", "--verify", "--quiet", "HEAD^"], folder=root).returncode == 0
    if asked.stdout.strip() == "true":
        cure = "Run `git fetch --unshallow`, or set `fetch-depth: 0` for actions/checkout."
        return Check("repository", "warning", "a shallow clone: the reference commit may be absent", cure)
    if not has_previous:
        return Check("repository", "warning", "no commit before this one to compare with", "Commit a change, then check it.")
    return Check("repository", "ok", "complete, with a commit to compare with")


def check_torch(python: Path) -> Check:
    """Check torch, imported in a process of its own, and whether it sees a GPU."""
    version = installed_version("torch")
    if version is None:
        cure = "Install it: https://pytorch.org/get-started/locally."
        return Check("torch", "missing", "not installed", cure, unfit=True)
    asked = ask([python, "-P", "-c", _TORCH], timeout_s=180.0)
    answer = last_json(asked.stdout)
    if asked.returncode != 0 or answer is None:
        last = clean(asked.stderr.strip().rpartition("\n")[2]) or "no reason given"
        return Check("torch", "missing", f"{version} does not import: {last}", "Reinstall torch.", unfit=True)
    said = {key: clean(str(value)) for key, value in answer.items() if value is not None}
    if "cuda" not in said:
        return Check("torch", "ok", f"{said.get('version', version)}, built without CUDA: {ON_CPU}")
    built = f"{said.get('version', version)} for CUDA {said['cuda']}"
    if "gpu" not in said:
        cure = "Compare the driver with the CUDA version that torch was built for, and look at CUDA_VISIBLE_DEVICES."
        return Check("torch", "warning", f"{built} sees no GPU: {ON_CPU}", cure)
    return Check("torch", "ok", f"{built}, sees {said['gpu']}")


def check_gpu(gpu: Gpu | None, vendor: Vendor) -> Check:
    """Check the GPU as its vendor's library shows it. A machine without one can still measure on the CPU."""
    if gpu is None:
        return Check("GPU", "missing", f"{vendor.unsupported or f'no {vendor.name} driver or no GPU'}: {ON_CPU}", unfit=True)
    memory = "" if gpu.memory_bytes is None else f", {units.size(gpu.memory_bytes)}"
    return Check("GPU", "ok", f"GPU {gpu.index}: {gpu.name}{memory}, driver {gpu.driver or 'unknown'}")


def check_triton() -> Check:
    """Check whether Triton is installed."""
    version = installed_version("triton")
    if version is None:
        return Check("Triton", "missing", "not installed: benchmarks that use it fail", "Install it: pip install triton.")
    return Check("Triton", "ok", version)


def check_nvcc() -> Check:
    """Check nvcc, which only benchmarks in CUDA C++ need."""
    try:
        nvcc = find_nvcc()
    except CudaBuildError as error:
        return Check("nvcc", "missing", error.message, error.hint)
    version = program_version(nvcc)
    if version is None:
        return Check("nvcc", "warning", f"{nvcc} does not print its version", "Check the CUDA toolkit.")
    return Check("nvcc", "ok", f"{version} at {nvcc}")


def check_ncu() -> Check:
    """Check Nsight Compute, whose counters show why a case changed."""
    try:
        ncu = tools.part("ncu").find_ncu(os.environ)
    except RatchetError:
        return Check("ncu", "missing", "not found: profiles come from torch.profiler", "Install Nsight Compute.")
    return Check("ncu", "ok", f"{program_version(ncu) or 'unknown version'} at {ncu}")


def check_profiling(params: Path = Path("/proc/driver/nvidia/params"), status: Path = Path("/proc/self/status")) -> Check:
    """Check whether the driver lets us read hardware counters."""
    restricted = _field(params, "RmProfilingAdminOnly")
    if restricted is None:
        return Check("counters", "warning", f"{params} does not say who may read them", "Try ncu on any program.")
    if restricted == "0":
        return Check("counters", "ok", "open to all users")
    if _is_admin(status):
        return Check("counters", "ok", "open to administrators, which we are")
    cure = "Load the driver with NVreg_RestrictProfilingToAdminUsers=0, or give the container CAP_SYS_ADMIN."
    return Check("counters", "warning", "closed to us (ERR_NVGPUCTRPERM): profiles come from torch.profiler", cure)


def _is_admin(status: Path) -> bool:
    """Return whether this process may read restricted counters. CAP_SYS_ADMIN decides: root in a container often lacks it."""
    mask = _field(status, "CapEff")
    return bool(int(mask, 16) & _CAP_SYS_ADMIN) if mask else os.geteuid() == 0


def _field(file: Path, name: str) -> str | None:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), None)


def check_card(gpu: Gpu) -> Check:
    """Check whether anything is known against this very GPU: the state of its memory."""
    card = gpu.card()
    if card.problem:
        return _from_sentence("card", f"GPU {gpu.index}: {card.problem}", unfit=True)
    return Check("card", "ok", f"{gpu.uuid}: nothing is known against it")


def check_fitness(gpu: Gpu) -> list[Check]:
    """Check whether the GPU could be timed now."""
    condition = inspect(gpu)
    problems = [_from_sentence("fitness", note, unfit=True) for note in problems_before(condition)]
    notes = [_from_sentence("fitness", note) for note in warnings_before(condition)]
    return [*problems, *notes] or [Check("fitness", "ok", f"GPU {gpu.index} is free")]


def _from_sentence(name: str, note: str, *, unfit: bool = False) -> Check:
    what, _, todo = note.partition("; ")
    return Check(name, "warning", what, todo[:1].upper() + todo[1:], unfit)


def check_settings(request: Request) -> Check:
    """Check the settings, and whether the results can be written where these say."""
    try:
        return check_results(results_folder(request, os.environ))
    except UsageError as error:
        return Check("settings", "warning", error.message, error.hint)


def check_results(folder: Path) -> Check:
    """Check whether the results can be written, now or once their folder is made."""
    there = next(place for place in (folder, *folder.absolute().parents) if os.access(place, os.F_OK))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check("results", "ok", f"{folder} can be written")
    return Check("results", "missing", f"{there} cannot be written", "Change its permissions, or `results` in [tool.ratchet].")


def check_containment(folder: Path) -> Check:
    """Check whether the kernel lets a user without rights confine the files that `ratchet evaluate` runs."""
    containment = tools.part("containment")
    held = containment.available(folder)
    missing = [part for part in containment.PARTS if part not in held]
    if not missing:
        return Check("containment", "ok", f"evaluate confines files by {', '.join(held)}")
    cure = "Allow user namespaces (kernel.unprivileged_userns_clone, AppArmor, the container's seccomp profile)."
    if missing == ["limits"]:
        cure = "Run evaluate as a user other than root, whose processes the kernel counts (Linux 5.14 or later)."
    return Check("containment", "warning", f"evaluate goes without {', '.join(missing)}", cure)


def check_space(folder: Path) -> Check:
    """Check whether worktrees and compiled kernels find room."""
    free = shutil.disk_usage(folder).free
    if free < SPACE_BYTES:
        cure = f"Free {units.size(SPACE_BYTES)} there, or set TMPDIR to a larger disk."
        return Check("space", "warning", f"{units.size(free)} free in {folder}", cure)
    return Check("space", "ok", f"{units.size(free)} free in {folder}")


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield aligned plain text, each cure under its line."""
    wide = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.state:<7}  {check.name:<{wide}}  {check.detail}"
        if check.cure:
            yield f"{'':<7}  {'':<{wide}}  → {check.cure}"


def last_json(text: str) -> dict[str, Any] | None:
    """Return the JSON object on the last line that a program printed; None where there is none."""
    try:
        told = json.loads(text.strip().rpartition("\n")[2])
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
