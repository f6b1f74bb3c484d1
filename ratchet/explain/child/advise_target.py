"""The program that `ratchet advise` starts: it runs a script, or calls a case, under torch.profiler and saves the trace.

Tracing begins behind the imports at the top of a script, and ends with the script or after some seconds. The trace is
torch.profiler's own, with two fields of ours at its end: the lines of the callers, which the profiler knows and does not write,
and what the profiler costs for each event. `trace_script` also serves ``research/advise_traces.py``.
"""

from __future__ import annotations
import __future__ as future

import ast
import json
import os
import re
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast
from unittest import mock

from ratchet import tools
from ratchet.common.call_trace import TimeIsOver, end_in_time, warmed
from ratchet.core.bench.child.kernel_times import profiled, settle
from ratchet.core.bench.child.loader import load_tree, use_last_cores
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.errors import RatchetError, described
from ratchet.core.workload import Device
from ratchet.explain.child import give_up

MARK = "ratchet advise: "
"""Beginning of the last line on stderr where there is no trace, which says why; the exit status is `TROUBLE`."""
MOST_CALLS = 30
"""Calls of a case that are traced, if they end in time."""
_TORCHS = re.compile(r"torch/|ratchet/|<|.*(?:site-packages|/lib/python3)")
_BASE = re.compile(rb'"baseTimeNanoseconds":\s*(\d+)')


class TraceError(RatchetError):
    """A script or a case cannot be traced: it fails, or never ends."""


def main() -> None:
    argument = json.loads(sys.argv[1])
    out, trace_for_s = Path(argument["out"]), float(argument["trace_for_s"])
    try:
        if argument["script"] is not None:
            trace_script(Path(argument["script"]), argument["arguments"], out, trace_for_s)
        else:
            _trace_case(TreeSpec.read(argument["tree"]), argument["case"], argument["seed"], out, trace_for_s)
    except RatchetError as error:
        give_up(MARK, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything
        give_up(MARK, described(error, str(Path(argument["script"] or ".").parent))[0])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of a script that was ended would be waited for


def trace_script(script: Path, arguments: Sequence[str], out: Path, trace_for_s: float) -> None:
    """Run a script as ``python SCRIPT ARGUMENTS…`` would, and save its trace. Raises what the script raises."""
    import torch

    first, rest = _halves(script)
    module = types.ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module  # workers of a DataLoader look functions up in it
    sys.argv[:] = [str(script), *arguments]
    sys.path[:0] = [str(script.parent)]
    exec(first, vars(module))  # noqa: S102  the script that was asked for

    def body() -> None:
        try:
            exec(rest, vars(module))  # noqa: S102
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise

    device: Device = "cuda" if torch.cuda.is_available() else "cpu"
    _save(body, device, out, trace_for_s)


def _halves(script: Path) -> tuple[types.CodeType, types.CodeType]:
    """Compile the imports at the top of a script, and the rest of it."""
    tree = ast.parse(script.read_bytes(), str(script))
    count = 0
    for number, statement in enumerate(tree.body, 1):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            count = number
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
    futures = [one for one in tree.body[:count] if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    flags = sum(getattr(future, name.name).compiler_flag for one in futures for name in one.names)
    halves = (ast.Module(body, []) for body in (tree.body[:count], tree.body[count:]))
    first, rest = (cast(types.CodeType, compile(half, str(script), "exec", flags, dont_inherit=True)) for half in halves)
    return first, rest


def _trace_case(spec: TreeSpec, name: str, seed: int, out: Path, trace_for_s: float) -> None:
    from ratchet.core.bench.child.calls import TimedCall

    tree = load_tree(spec)
    if spec.device == "cpu":
        use_last_cores(spec.share.threads)
    tools.part("case_boundary").CaseBoundary(tree).begin(name, watched=False)
    call = TimedCall(tree.build(name, seed))
    profiled(call, spec.device, detailed=True)  # the first one sets the tracer up, and its events are late
    calls = max(3, min(MOST_CALLS, int(trace_for_s / max(warmed(call, spec.device), 1e-9))))

    def body() -> None:
        for _ in range(calls):
            call()

    _save(body, spec.device, out, trace_for_s)


# Tracing, and what is written.


def _save(body: Callable[[], None], device: Device, out: Path, trace_for_s: float) -> None:
    """Trace until the body ends or the time is over, and write the trace to ``out``."""
    import torch

    def limited() -> None:
        before = signal.signal(signal.SIGALRM, end_in_time)
        signal.setitimer(signal.ITIMER_REAL, trace_for_s)
        try:
            with mock.patch.object(torch.profiler.profile, "start", _refuse):  # two at once crash
                body()
        except TimeIsOver:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()

    taken = profiled(limited, device, detailed=True)
    taken.export_chrome_trace(str(out))
    used: Device = "cuda" if torch.cuda.is_initialized() else "cpu"
    with out.open("r+b") as stream:
        base = _BASE.search(stream.read(65536))
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - 4096))
        tail = stream.read()
        stream.seek(end - (len(tail) - tail.rindex(b"}")))
        callers = [[start - int(base[1]), line] for start, line in _callers(taken)] if base else []
        fields = {"ratchetOverhead": _overhead_us(used), "ratchetCallers": callers}
        stream.write(b", " + json.dumps(fields)[1:].encode())
        stream.truncate()


def _refuse(*_: object) -> NoReturn:
    raise TraceError("It uses torch.profiler itself.", "Have it export its trace, and give that to `ratchet advise`.")


def _events(taken: Any) -> Iterator[Any]:
    """Yield every event that the profiler has in its tree."""
    waiting = list(taken.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting += event.children
        yield event


def _callers(taken: Any) -> Iterator[tuple[int, int]]:
    """Yield the start in nanoseconds, and the line of the caller, of each function that the user's code calls."""
    for event in _events(taken):
        try:
            caller = event.extra_fields.caller
            if not _TORCHS.match(caller.file_name):
                yield event.start_time_ns, caller.line_number
        except (AttributeError, UnicodeDecodeError):  # an operator; a name that is gone by now
            continue


def _overhead_us(device: Device) -> float:
    """Measure what the profiler costs the host for each of its events: the same small operators with and without it."""
    import torch
    from torch._C._profiler import _EventType

    x = torch.zeros(8, device=device)

    def work() -> float:
        settle(device)
        started = time.perf_counter()
        for _ in range(300):
            x.add(1).mul(2)
        spent = time.perf_counter() - started
        settle(device)
        return spent

    work()
    plain_s = min(work() for _ in range(3))
    traced: list[float] = []
    taken = profiled(lambda: traced.extend(work() for _ in range(3)), device, detailed=True)
    count = sum(event.tag in (_EventType.TorchOp, _EventType.PyCall, _EventType.PyCCall) for event in _events(taken))
    return float(max(0.0, min(traced) - plain_s) * 1e6 / max(1, count / 3))


if __name__ == "__main__":
    main()
