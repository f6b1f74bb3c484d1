"""Compute the identity of a workload on a GPU. Where both sides have the same one, timing them would compare equal work.

`child.worker` calls `of` in its own process, which runs and captures the author's code, and reads device memory and the files of
loaded libraries.

Equal machine code is not enough. The host decides what is launched, how often, how wide and with which arguments, and device
memory holds indices and lengths. So the identity is a digest over

- the launches of one call, in order: kernels with grid, block, shared memory, attributes and arguments, copies and fills,
  and which waits for which (`capture`, `launches`);
- the machine code of every kernel (`code`, `elf`);
- the content of the device memory that launches find (`capture.Memory`), and the settings for all launches (`driver`).

Whatever cannot be seen makes a workload opaque, and it is timed. docs/decisions/0009-identical.md has what is not covered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ratchet.core.device.vendor import vendor_here
from ratchet.core.untrusted import clean
from ratchet.identical.launches import record as launches
from ratchet.identical.launches.capture import Contents, Memory, Operators, Recorder, live, reserved, undisturbed
from ratchet.identical.launches.code import Code, Codes, refuse_namesakes
from ratchet.identical.launches.driver import LOCAL_BYTES, REGISTERS, Driver, Identity, NoIdentity
from ratchet.identical.launches.record import Comparable, LaunchReader

__all__ = ["Identity", "failed", "launch_settings", "of", "streams_of_others"]

_VERSION = 3


def of(call: Callable[[], Any], tree: Path, device_type: str) -> Identity:
    """Return the identity of a workload whose ``call`` has been called before, in a process that runs the benchmarks of ``tree``.

    Never raises for what an author's code does: then it is opaque.
    """
    if device_type != "cuda":
        return Identity("", "on the CPU no machine code is exposed")
    if unseen := vendor_here().no_machine_code:
        return Identity("", unseen)
    try:
        return _on_gpu(call, tree)
    except NoIdentity as reason:
        return Identity("", clean(str(reason)), spent=reason.spent)
    except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything; it costs the identity only
        return failed(error)


def launch_settings() -> list[object]:
    """Return the settings that code may have made for all later launches of this process; none where the driver cannot tell."""
    try:
        return _driver().settings(torch.cuda.current_stream().cuda_stream)
    except NoIdentity:
        return []


def failed(error: BaseException) -> Identity:
    """Return the identity of a workload where looking at its launches failed: opaque, and the process may be damaged."""
    return Identity("", clean(f"looking at its launches failed: {type(error).__name__}: {error}"), spent=True)


def _on_gpu(call: Callable[[], Any], tree: Path) -> Identity:
    driver = _driver()
    device = torch.device("cuda", torch.cuda.current_device())
    stream = torch.cuda.current_stream().cuda_stream
    with undisturbed():
        recorder = Recorder(driver)
        recorder.warm_up(call)
        # Scratch memory of cuBLAS holds leftovers; without it, the captures get their own.
        torch._C._cuda_clearCublasWorkspaces()
        before = live(torch.cuda.memory_snapshot(), device.index)
        memory = Memory(driver, Contents(driver, device, stream), before)
        recordings = recorder.record_alone(call, times=2)
        recordings += [recorder.record(call, operators=Operators()) for _ in range(2)]
        memory.captured(reserved(torch.cuda.memory_snapshot(), device.index))
        reader = LaunchReader(driver)
        found = [reader.launches(recording.graph.raw_cuda_graph()) for recording in recordings]
        codes = Codes(tree, torch.cuda.get_device_capability(), driver.module)
    if not found[0].nodes:
        raise NoIdentity("a CUDA graph sees no launch of it")
    names = {each.function: each.name for each in found[0].nodes if each.kind == "kernel"}
    code = {function: codes.of(function, name) for function, name in names.items()}
    refuse_namesakes(zip(names.values(), code.values(), strict=True))
    by_operator = {
        function for function, name in names.items() if launches.TORCHS_OWN.match(name) and code[function].origin == "environment"
    }
    calls = [
        launches.comparable(one, functools.partial(memory.find, recording.allocations), recording.operators, by_operator)
        for one, recording in zip(found, recordings, strict=True)
    ]
    held = calls[2]
    _refuse_differences(*calls)
    variables = [driver.variable(function, name) for function, one in code.items() for name in one.variables]
    everything = {
        "version": _VERSION,
        "launches": [held.nodes, held.edges, held.operators],
        "memory": memory.described(held.allocations),
        "code": [[one.origin, one.digests] for one in code.values()],
        "variables": [[size for _, size in variables], memory.variables(variables)],
        "libraries": codes.ambiguous(),
        "settings": driver.settings(stream),
    }
    return Identity(
        launches.digest(everything),
        "",
        launches.shown(found[0]),
        resources=_resources(driver, found[0].nodes, code),
        one_by_one=all(one.one_by_one for one in found),
    )


def _resources(driver: Driver, nodes: Sequence[launches.Node], code: Mapping[int, Code]) -> dict[str, int] | None:
    """Return what the kernels of a call take, as `records.run.Resources`; None where the driver does not tell."""
    taken = {}
    for name, attribute in (("spills", LOCAL_BYTES), ("registers", REGISTERS)):
        try:
            taken[name] = max((driver.attribute(function, attribute) for function in code), default=0)
        except NoIdentity:
            return None
    size = sum(one.size for one in code.values())
    return {**taken, "code_size": size, "launches": sum(node.kind == "kernel" for node in nodes)}


def streams_of_others() -> int | None:
    """Return a number that grows when anything makes a CUDA stream in this process, `Driver` apart; None if it is not known."""
    if vendor_here().no_machine_code:
        return None
    try:
        return _driver().streams_of_others()
    except (NoIdentity, OSError):
        return None


def _refuse_differences(timed: Comparable, again: Comparable, held: Comparable, held_again: Comparable) -> None:
    """Raise NoIdentity where calls of one workload differ.

    Only calls whose memory was held can be compared between processes. That they launch what is timed is shown by a call whose
    memory was not: its launches are equal in all but the addresses of what the call gets for itself.
    """
    if difference := launches.difference(timed.without_own_memory(), again.without_own_memory()):
        raise NoIdentity(f"two calls of it do not launch the same: {difference}")
    if difference := launches.difference(held.without_own_memory(), timed.without_own_memory()):
        raise NoIdentity(f"it launches something else while its memory is held: {difference}")
    if difference := launches.difference(held, held_again):
        raise NoIdentity(f"two calls of it do not use memory in the same way: {difference}")


@functools.cache
def _driver() -> Driver:
    return Driver()
