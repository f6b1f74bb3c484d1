"""The program that a profiler looks at: it imports one tree's benchmarks once, and calls each case in a marked range.

`ratchet.explain.sides` has a profiler run it with one JSON argument: see `target_command`. Each case is built,
warmed up, and called once between ``cudaProfilerStart`` and ``cudaProfilerStop``, so that a profiler that starts switched off
sees nothing of the imports, the tuning and the warm-up. It writes to a file which cases came through, one line of JSON each.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import json
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet import tools
from ratchet.common.call_trace import TimeIsOver, end_in_time, warmed
from ratchet.core.bench.child.kernel_times import settle
from ratchet.core.bench.child.loader import LoadedTree, load_tree, use_last_cores
from ratchet.core.bench.tree_spec import TreeSpec, child_command
from ratchet.core.errors import ForeignModuleError, RatchetError
from ratchet.core.records import Record
from ratchet.core.units import listed
from ratchet.core.workload import Device
from ratchet.explain.child import give_up, one_line

if TYPE_CHECKING:
    from ratchet.core.bench.child.calls import TimedCall

MARK = "ratchet target: "
"""Beginning of the last line on stderr where no case could be called, which says why; the exit status is `TROUBLE`."""
LAST_S = 10
"""Seconds that the process has to end after its time is over, before it ends within a call that never returns."""


def target_command(
    tree: TreeSpec, cases: Sequence[str], seed: int, time_limit_s: float, *, status: Path, turn: Path, go: Path | None = None
) -> list[str]:
    """Return the argument list for cases of one tree. After ``time_limit_s`` seconds the process ends itself, whoever started it.

    ``status`` is the file that `read_status` reads. Processes of one ``turn`` import and build their first case at once, and
    then use the GPU one after the other: what one does would count in the other's memory traffic. With ``go``, the path of a
    `GoFile`, the process imports the tree and then waits until it may go on.
    """
    what = {"tree": tree, "cases": cases, "seed": seed, "time_limit_s": max(1, round(time_limit_s))}
    paths = {"status": status.resolve(), "turn": turn.resolve(), "go": go and go.resolve()}
    return child_command("ratchet.explain.child.profile_target", tree.python, **what, **paths)


class GoFile:
    """A file for which processes wait once they have imported their tree. `release` lets them call the cases that it names.

    It is locked until then, and the kernel unlocks it when this process ends; those that wait then find it empty, and end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w", encoding="utf-8")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self, cases: Sequence[str], time_limit_s: float) -> None:
        """Let the processes go on, with so many seconds for these of their cases."""
        json.dump({"cases": list(cases), "time_limit_s": max(1, round(time_limit_s))}, self._file)
        self.close()

    def close(self) -> None:
        """Unlock the file; if nothing was released, those that wait for it end."""
        if not self._file.closed:
            self._file.flush()
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a process forked meanwhile may hold the descriptor too
            self._file.close()


class CaseStatus(Record):
    """How a case went: without ``trouble`` it was called."""

    case: str
    trouble: str = ""


def read_status(path: Path) -> dict[str, str]:
    """Return case → trouble, in the order in which they were called; what is not such a line is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        try:
            status = CaseStatus.model_validate_json(line)
        except ValueError:  # cut off, or written by the author's code
            continue
        found[status.case] = status.trouble
    return found


def main() -> None:
    argument = json.loads(sys.argv[1])
    signal.signal(signal.SIGALRM, end_in_time)
    _limit_time(argument["time_limit_s"])
    spec, cases, seed = TreeSpec.read(argument["tree"]), argument["cases"], argument["seed"]

    came_through = 0
    trouble = "there was no case to call"
    with Path(argument["status"]).open("w", encoding="utf-8") as status, Path(argument["turn"]).open("w") as turn:
        try:
            tree = load_tree(spec)
            tools.part("libraries").load_ahead(tree)
            if argument["go"]:
                cases = _cases_to_call(Path(argument["go"]), cases)
            fcntl.flock(turn, fcntl.LOCK_SH)
            if spec.device == "cpu":
                use_last_cores(spec.share.threads)
            boundary, left = tools.part("case_boundary").CaseBoundary(tree), ""
            for case in cases:
                trouble = left or _visited(tree, boundary, case, seed, partial(fcntl.flock, turn, fcntl.LOCK_EX))
                came_through += not trouble
                status.write(f"{CaseStatus(case=case, trouble=trouble).model_dump_json()}\n")
                status.flush()
                if not left and (restored := boundary.restore()).spent:
                    left = f"{case} left changed: {listed(restored.changed)}. Profile this case by itself."
        except TimeIsOver:
            trouble = "the time was over before any case was called. Raise profile_timeout in [tool.ratchet]."
        except RatchetError as error:
            trouble = str(error)
        if not came_through:
            give_up(MARK, trouble)


def _limit_time(seconds: int) -> None:
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + LAST_S, exit=True)


def _cases_to_call(go: Path, cases: Sequence[str]) -> list[str]:
    """Wait until the file is unlocked. Return those of the cases that it names, and limit the time as it says."""
    signal.alarm(0)  # what the other processes measure meanwhile is not this one's time
    faulthandler.cancel_dump_traceback_later()
    with go.open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        text = file.read()
    if not text:
        raise SystemExit(0)
    order = json.loads(text)
    _limit_time(order["time_limit_s"])
    return [case for case in cases if case in order["cases"]]


def _visited(tree: LoadedTree, boundary: Any, case: str, seed: int, wait_for_turn: Callable[[], None]) -> str:
    """Build a case, and in this process's turn warm it up and call it in its range. Return why that failed, if it did.

    The warm-up waits for the turn as well, since it may choose kernels by timing them.
    """
    device = tree.spec.device
    try:
        boundary.begin(case, watched=True)
        call = _built(tree, case, seed)
        settle(device)
        wait_for_turn()
        _call_once(call, device)
    except RatchetError as error:
        return one_line(str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything; it costs this case only
        return one_line(f"the case raised {type(error).__name__}: {error}")
    finally:
        _forget_memory(device)
    return ""


def _built(tree: LoadedTree, case: str, seed: int) -> TimedCall:
    """Return the call that a worker would time: the same seed, the same tuning, from the tree's own modules."""
    from ratchet.core.bench.child.calls import TimedCall, forget_compiled

    forget_compiled(in_parallel=False)
    workload = tree.build(case, seed)
    if foreign := tree.provenance.foreign():
        raise ForeignModuleError(f"The tree {foreign[0]}.", "Uninstall that package.")
    return TimedCall(workload)


def _call_once(call: TimedCall, device: Device) -> None:
    import torch

    warmed(call, device)
    if call.before is not None:  # outside of the range
        call.before()
        settle(device)
    if device != "cuda":
        call.run()
        return
    torch.cuda.profiler.start()
    try:
        call.run()
        settle(device)
    finally:
        torch.cuda.profiler.stop()


def _forget_memory(device: Device) -> None:
    import torch

    gc.collect()
    if device == "cuda":
        with contextlib.suppress(RuntimeError):  # of a context that the case broke: the next one says so
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
