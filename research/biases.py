"""Biases of paired measuring on unchanged code: ``python research/biases.py`` looks for them in seven experiments.

    python research/biases.py [--out FILE.json] [--seconds 480] [--device cuda|cpu] [--quick] [EXPERIMENT…]

Both sides are plain copies of this clone's ``bench/``. Their hosts and workers are those of `ratchet check`, and what is
done with them is what a check does: prepare, warm up, blocks A B B A, one log ratio for each case of each pair.

- ``parents``: do pairs forked from other hosts differ by more than pairs forked from the same two?
- ``first``: which first matters: to be forked, to allocate, to be timed?
- ``heavy``: what does a block lose that follows another process's heavy load?
- ``resident``: what does a second process cost that only holds its context and memory?
- ``path``: does a tree in a path 120 characters longer make its side slower?
- ``age``: does a tree that is older, and was compiled earlier?
- ``flush``: which way of emptying the L2 cache makes processes agree? It times ``normalize`` in processes of its own
  (`biases_flush.py`), because a worker's clock cannot be changed from outside.

All figures are percent; a log ratio counts as such. Each experiment keeps to its share of ``--seconds``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biases_figures import (
    Line,
    Row,
    Summary,
    p_text,
    print_table,
    summarise_first,
    summarise_heavy,
    summarise_parents,
    summarise_plain,
)
from biases_flush import VARIANTS, summarise_flush
from biases_pairs import (
    CASES,
    HEAVY,
    LEAD_IN_S,
    LONGER,
    QUICK,
    ROOT,
    SIDES,
    Counts,
    Found,
    Ground,
    Order,
    SideWorkers,
    TimeShare,
    compile_cases,
    copy_tree,
    from_first,
    make_older,
    measure_pair,
    median_log_ratio,
    open_hosts,
    other_side,
    shuffled,
    tree_spec,
    usual_order,
)

import ratchet
from ratchet.core.bench.client import CaseTrouble, HostClient, Hosts
from ratchet.core.bench.messages import Listing
from ratchet.core.config import load_settings
from ratchet.core.device.environment import describe
from ratchet.core.device.lock import hold, lock_folder
from ratchet.core.device.telemetry import Sampler
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import RatchetError
from ratchet.core.records.run import Side
from ratchet.core.workload import Device

# ---------------------------------------------------------------------------------------------------------------------
# The experiments


def parents(ground: Ground, share: TimeShare, found: Found) -> None:
    for parent in range(ground.counts.parents):
        if not share.room(2):
            return
        with open_hosts(ground, ground.trees, first=SIDES[parent % 2]) as hosts:
            pairs_of(ground, hosts, share, found, parent, ground.counts.pairs_of_parent)


def pairs_of(ground: Ground, hosts: Mapping[Side, HostClient], share: TimeShare, found: Found, parent: int, count: int) -> None:
    """Pairs of workers of one pair of hosts; over an even number of hosts their orders balance also if ``count`` is odd."""
    for index in share.steps(count):
        order = usual_order(parent * count + index)
        with SideWorkers(ground, hosts, ground.settings.seed + 100 * parent + 2 * index) as workers:
            measure_pair(ground, workers, order, share, found, parent=parent, pair=index)


def first(ground: Ground, share: TimeShare, found: Found) -> None:
    """All eight orders, again and again; both workers are forked before either allocates."""
    with open_hosts(ground, ground.trees) as hosts:
        for index in share.steps(ground.counts.first):
            # The two that agree with each other come next to each other, so that a short run is balanced too.
            order = Order(SIDES[index % 2], SIDES[(index + index // 2) % 2], SIDES[index // 4 % 2])
            with SideWorkers(ground, hosts, ground.settings.seed + 2 * index) as workers:
                for side in from_first(order.fork):
                    workers.fork(side)
                measure_pair(ground, workers, order, share, found, parent=0, pair=index)


LEAD_INS = ("own", "heavy", "idle")


def heavy(ground: Ground, share: TimeShare, found: Found) -> None:
    """Two blocks of a case after 0.1 s of: the case itself, another process's heavy case, nothing."""
    with open_hosts(ground, ground.trees) as hosts:
        for pair in share.steps(ground.counts.heavy):
            tested = SIDES[pair % 2]
            other = other_side(tested)
            with SideWorkers(ground, hosts, ground.settings.seed + 2 * pair) as workers:
                for case in shuffled(found.left(ground.cases), ground.settings.seed + pair):
                    if not share.room():
                        break
                    try:
                        found.rows.append(after_lead_ins(ground, workers, case, tested, other, pair))
                    except CaseTrouble as error:
                        found.troubles[case] = f"{error.side}, {error.stage}: {error.message}"
                        workers.end(*SIDES)


def after_lead_ins(ground: Ground, workers: SideWorkers, case: str, tested: Side, other: Side, pair: int) -> Row:
    workers.hold(other, HEAVY)
    workers.prepare(tested, case)
    load = workers.warm_up((other,))
    samples = workers.warm_up((tested,))
    rounds: list[dict[str, list[float]]] = []
    for index in range(ground.counts.heavy_rounds):
        turned = (pair + index) % len(LEAD_INS)
        taken: dict[str, list[float]] = {}
        for lead_in in (*LEAD_INS[turned:], *LEAD_INS[:turned]):
            until = time.monotonic() + LEAD_IN_S
            if lead_in == "idle":
                time.sleep(LEAD_IN_S)
            while time.monotonic() < until:
                workers.block(*((other, load) if lead_in == "heavy" else (tested, samples)), index)
            # The same place in memory for all three, so that it cancels.
            taken[lead_in] = [workers.block(tested, samples, index) for _ in range(2)]
        rounds.append(taken)
    logs = {
        f"{lead_in}_{number + 1}": statistics.median(math.log(taken[lead_in][number] / taken["own"][number]) for taken in rounds)
        for lead_in in ("heavy", "idle")
        for number in range(2)
    }
    return {"case": case, "pair": pair, "tested": tested, **logs, "rounds_ms": rounds}


def resident(ground: Ground, share: TimeShare, found: Found) -> None:
    """One worker's blocks: alone, with a second that has prepared the same case and waits, alone, with another, alone."""
    with open_hosts(ground, ground.trees) as hosts:
        for pair in share.steps(ground.counts.resident):
            tested = SIDES[pair % 2]
            with SideWorkers(ground, hosts, ground.settings.seed + 2 * pair) as workers:
                for case in shuffled(found.left(ground.cases), ground.settings.seed + pair):
                    if not share.room():
                        break
                    try:
                        found.rows += alone_and_with(ground, workers, case, tested, pair)
                    except CaseTrouble as error:
                        found.troubles[case] = f"{error.side}, {error.stage}: {error.message}"
                        workers.end(*SIDES)


def alone_and_with(ground: Ground, workers: SideWorkers, case: str, tested: Side, pair: int) -> list[Row]:
    workers.prepare(tested, case)
    samples = workers.warm_up((tested,))

    def phase() -> list[float]:
        workers.warm_up((tested,))
        return [workers.block(tested, samples, index) for index in range(ground.counts.resident_blocks)]

    rows = []
    before = phase()
    for swing in range(ground.counts.swings):
        workers.prepare(other_side(tested), case)
        among = phase()
        workers.end(other_side(tested))
        after = phase()
        alone = [math.sqrt(a * b) for a, b in zip(before, after, strict=True)]
        rows.append({
            "case": case, "pair": pair, "swing": swing, "tested": tested, "log_ratio": median_log_ratio(among, alone),
            "drift": median_log_ratio(after, before), "before_ms": before, "with_ms": among, "after_ms": after,
        })  # fmt: skip
        before = after
    return rows


def path(ground: Ground, share: TimeShare, found: Found) -> None:
    deep = ground.folder / ("long-" * (LONGER // 5) + "head")
    trees: dict[Side, Path] = {"reference": ground.trees["reference"], "head": copy_tree(deep, ground.settings.bench)}
    hosts_wanted, pairs_wanted = ground.counts.path
    for parent in range(hosts_wanted):
        if not share.room(2):
            return
        with open_hosts(ground, trees, first=SIDES[parent % 2]) as hosts:
            pairs_of(ground, hosts, share, found, parent, pairs_wanted)


def age(ground: Ground, share: TimeShare, found: Found) -> None:
    """The reference's tree and caches are old; the head's are made anew for each pair of hosts."""
    aged, old = copy_tree(ground.folder / "aged", ground.settings.bench), caches(ground.folder / "caches_aged")
    make_older(aged)
    with Hosts({"reference": tree_spec(ground, aged)}, {**ground.environ, **old}) as hosts:
        hosts.sides["reference"].listing()
        compile_cases(ground, hosts.sides, ground.cases, found)
    make_older(aged)
    make_older(ground.folder / "caches_aged")
    hosts_wanted, pairs_wanted = ground.counts.age
    for parent in range(hosts_wanted):
        if not share.room(2):
            return
        fresh = copy_tree(ground.folder / f"new{parent}", ground.settings.bench)
        new = caches(ground.folder / f"caches_new{parent}")
        trees: dict[Side, Path] = {"reference": aged, "head": fresh}
        with open_hosts(ground, trees, first=SIDES[parent % 2], environs={"reference": old, "head": new}) as both:
            compile_cases(ground, both, ground.cases, found)
            pairs_of(ground, both, share, found, parent, pairs_wanted)


def caches(folder: Path) -> dict[str, str]:
    """The environment that makes ratchet and Triton keep what they compile in ``folder``, so far empty."""
    folder.mkdir()
    return {"RATCHET_CACHE_DIR": str(folder / "ratchet"), "TRITON_CACHE_DIR": str(folder / "triton")}


# ---------------------------------------------------------------------------------------------------------------------
# Flushing the L2 cache: processes of our own


def flush(ground: Ground, share: TimeShare, found: Found) -> None:
    """Fresh processes, one variant after the other, in another order every time."""
    if ground.gpu is None:
        raise RuntimeError("flush needs a GPU")
    command = [sys.executable, str(Path(__file__).resolve().with_name("biases_flush.py"))]
    environ = {
        **ground.environ,
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ground.gpu.uuid,
    }
    with (
        (ground.folder / "flush.log").open("ab") as log,
        subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            ask_server(server, "memset_2x", 0)  # compiles
            for seed in range(1, ground.counts.flush + 1):
                order = shuffled(VARIANTS, seed)
                for index in share.steps(len(order)):
                    for row in ask_server(server, order[index], seed):
                        if "error" in row:
                            found.troubles[f"{order[index]} seed {seed}"] = row["error"]
                        else:
                            found.rows.append(row)
        finally:
            server.kill()


def ask_server(server: subprocess.Popen[str], variant: str, seed: int) -> list[Row]:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"variant": variant, "seed": seed}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        if line.startswith('{"rows": '):
            return list(json.loads(line)["rows"])
    raise RuntimeError(f"the processes of flush ended with status {server.wait()}")


# ---------------------------------------------------------------------------------------------------------------------
# What it means


# ---------------------------------------------------------------------------------------------------------------------
# Running it


@dataclass(frozen=True)
class Experiment:
    """An experiment: how to measure it, how to sum it up, and its part of the time."""

    measure: Callable[[Ground, TimeShare, Found], None]
    summarise: Callable[[str, Sequence[Row]], Summary]
    weight: float


def plainly(what: str) -> Callable[[str, Sequence[Row]], Summary]:
    return lambda experiment, rows: summarise_plain(experiment, what, rows)


EXPERIMENTS = {
    "parents": Experiment(parents, summarise_parents, 90),
    "first": Experiment(first, summarise_first, 65),
    "heavy": Experiment(heavy, summarise_heavy, 50),
    "resident": Experiment(resident, plainly("with a second/alone"), 55),
    "path": Experiment(path, plainly("long path/short"), 50),
    "age": Experiment(age, plainly("new/old"), 70),
    "flush": Experiment(flush, summarise_flush, 90),
}


def run_experiment(name: str, ground: Ground, seconds: float) -> tuple[dict[str, Any], list[Line]]:
    """Measure and print one experiment; return its rows and lines, also where it broke off."""
    experiment = EXPERIMENTS[name]
    print(f"\n{name}: {seconds:.0f} s at most", flush=True)
    share, found, error = TimeShare(seconds), Found(), ""
    began = time.monotonic()
    with Sampler(ground.gpu) if ground.gpu else contextlib.nullcontext() as sampler:
        try:
            experiment.measure(ground, share, found)
        except Exception as raised:  # noqa: BLE001  one experiment must not cost the others
            error = f"{type(raised).__name__}: {raised}"
    took = time.monotonic() - began
    telemetry = sampler.summary([(began, began + took)]) if sampler else None
    summary = None
    if found.rows:
        try:
            summary = experiment.summarise(name, found.rows)
            print_table(summary.header, summary.table)
        except Exception as raised:  # noqa: BLE001  the rows are still worth keeping
            error = error or f"summary: {type(raised).__name__}: {raised}"
    for what, why in found.troubles.items():
        print(f"  left out: {what}: {why}")
    if telemetry:
        slowed = ", ".join(telemetry.slowdown_reasons) or "no slowdown"
        print(
            f"  SM {telemetry.sm_clock_mhz_median:.0f} MHz ({telemetry.sm_clock_mhz_min} to {telemetry.sm_clock_mhz_max}), "
            f"up to {telemetry.temperature_c_max} °C, {slowed}"
        )
    if error:
        print(f"  broke off: {error}")
    verdict = summary.verdict if summary else "nothing measured"
    print(f"  {name}: {verdict} [{took:.0f} s{', cut short' if share.cut else ''}]", flush=True)
    lines = summary.lines if summary else []
    kept = {
        "seconds": took,
        "cut_short": share.cut,
        "error": error or None,
        "troubles": found.troubles,
        "verdict": verdict,
        "telemetry": telemetry.model_dump(mode="json") if telemetry else None,
        "summary": [{name: known(value) for name, value in dataclasses.asdict(line).items()} for line in lines],
        "rows": found.rows,
    }
    return kept, lines


def known(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def run_all(options: argparse.Namespace, ground: Ground, listing: Listing, deadline: float) -> bool:
    """Every experiment in turn; what one leaves of its share goes to those after it. False if any broke off."""
    environment = describe(
        ground.gpu, ground.device, torch_version=listing.torch, cuda_version=listing.cuda, triton_version=listing.triton,
        cpu_threads=ground.settings.cpu_threads,
    )  # fmt: skip
    record: dict[str, Any] = {
        "command": sys.argv[1:],
        "environment": environment.model_dump(mode="json"),
        "counts": dataclasses.asdict(ground.counts),
        "placements": ground.settings.placements,
        "cases": ground.cases,
        "experiments": {},
    }
    lines: list[Line] = []
    names = list(options.experiments)
    for position, name in enumerate(names):
        weights = [EXPERIMENTS[later].weight for later in names[position:]]
        left = max(0.0, deadline - time.monotonic())
        record["experiments"][name], found = run_experiment(name, ground, left * weights[0] / sum(weights))
        lines += found
        if options.out:  # each time, so that a killed run keeps what it has
            options.out.write_text(json.dumps(record) + "\n", encoding="utf-8")
    print("\nAll figures, mean ± standard error")
    print_table(
        ("experiment", "case", "what", "figure", "n", "p", "note"),
        [(line.experiment, line.case, line.what, line.shown, str(line.count), p_text(line.p_value), line.note) for line in lines],
    )
    print("\nVerdicts")
    for name, kept in record["experiments"].items():
        print(
            f"  {name}: {kept['verdict']}{' (cut short)' if kept['cut_short'] else ''}{' (broke off)' if kept['error'] else ''}"
        )
    return not any(kept["error"] for kept in record["experiments"].values())


def set_up(ground: Ground, wanted: Sequence[str]) -> tuple[Ground, Listing]:
    """Copy the trees, compile, and leave out what this machine cannot run."""
    for tree in ground.trees.values():
        copy_tree(tree, ground.settings.bench)
    with Hosts({"head": tree_spec(ground, ground.trees["head"])}, ground.environ) as hosts:
        host = hosts.sides["head"]
        listing = host.listing()
        there = {case.name: case.skipped for case in listing.cases}
        for case in wanted:
            if there.get(case, "not in this tree"):
                print(f"left out everywhere: {case}: {there.get(case, 'not in this tree')}")
        cases = [case for case in wanted if there.get(case) == ""]
        found = Found()
        compile_cases(ground, {"head": host}, [*cases, HEAVY], found)
    for case, why in found.troubles.items():
        print(f"left out everywhere: {case}: {why}")
    if not found.left(cases):
        raise SystemExit("There is no case that this machine can run.")
    return dataclasses.replace(ground, cases=tuple(found.left(cases))), listing


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the biases of paired measuring of unchanged code.")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"some of: {', '.join(EXPERIMENTS)}; all by default")
    parser.add_argument("--out", type=Path, help="write everything that was measured to this JSON file")
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything (480)")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="the GPU, if there is one")
    parser.add_argument("--case", action="append", help="instead of the usual cases; repeatable")
    parser.add_argument("--quick", action="store_true", help="a few pairs, to see that it works")
    options = parser.parse_args()
    unknown = set(options.experiments) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"no such experiment: {', '.join(sorted(unknown))} (there are {', '.join(EXPERIMENTS)})")
    return options


def main() -> None:
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are ended and the folder goes
    deadline = time.monotonic() + options.seconds
    # The hosts start in another folder, so a relative path to ratchet would be lost.
    inherited = os.environ.get("PYTHONPATH", "")
    places = [
        str(Path(ratchet.__file__).resolve().parents[1]),
        *(str(Path(part).resolve()) for part in inherited.split(":") if part),
    ]
    environ = {**os.environ, "PYTHONPATH": ":".join(places)}
    gpu = None if options.device == "cpu" else vendor_here().choose_gpu(None, os.environ)
    if options.device == "cuda" and gpu is None:
        raise SystemExit("There is no GPU here.")
    device: Device = "cuda" if gpu else "cpu"
    if not options.experiments:
        options.experiments = [name for name in EXPERIMENTS if gpu or name != "flush"]
    settings = load_settings(ROOT, os.environ, {})
    counts = QUICK if options.quick else Counts(settings.blocks, settings.block_ms_on(device))
    key, shown = (f"gpu-{gpu.uuid}", f"GPU {gpu.index}") if gpu else ("cpu", "The CPU")
    with (
        hold(key, "research/biases.py", 0, print, device=shown, folder=lock_folder(os.environ)),
        tempfile.TemporaryDirectory(prefix="ratchet-biases-", ignore_cleanup_errors=True) as folder,
    ):
        wanted = tuple(options.case or CASES[device])
        ground = Ground(Path(folder), settings, device, gpu, counts, (), environ)
        ground, listing = set_up(ground, wanted)
        print(f"{gpu.name if gpu else 'CPU'}: {', '.join(ground.cases)}; set up and compiled in "
              f"{options.seconds - (deadline - time.monotonic()):.0f} s")  # fmt: skip
        whole = run_all(options, ground, listing, deadline)
    if not whole:
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except RatchetError as error:
        raise SystemExit(f"{error.message} {error.hint}") from None
