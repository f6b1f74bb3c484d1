"""Seconds and memory that publishing a large run takes: ``python research/publish_speed.py --cases 5000``.

The artifact is a record of so many slower cases of 20 pairs, 300 samples in each process, as a GPU job uploads it; the samples
scatter by 0.4 % in steps of 32 ns, as those of an H200. GitHub is the tests' stand-in for it, on this machine. Prints the
bytes of a case, the seconds that the job took and those of a CPU, and the largest memory of the job and of its child together.
The imports of both, a second and a half, do not count.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the stand-in for GitHub that its tests use

from ratchet.core.records.files import save
from ratchet.core.records.run import Block, CaseRun, Tree
from tests import examples
from tests.examples import compared, run_of
from tests.fake_github import FakeGitHub
from tests.integration.playground import git, new_repository
from tests.integration.publish_scene import HEAD, Scene
from tests.trusted_jobs import TrustedJobs

PAIRS, BLOCKS, SAMPLES, SLOWER = 20, 10, 30, 1.1
TICK_MS, SCATTER = 32e-6, 0.004


def case(number: int, draws: random.Random) -> CaseRun:
    """Return a case whose head takes a tenth longer than its reference."""
    made = compared(*([1.0] * PAIRS), name=f"case_{number}/default")
    sides = {}
    for side, ms in (("head", 0.09 * SLOWER), ("reference", 0.09)):
        sides[side] = tuple(
            replace(
                worker,
                blocks=tuple(
                    Block(
                        index=index,
                        position=2 * index,
                        samples_ms=tuple(round(draws.gauss(ms, SCATTER * ms) / TICK_MS) * TICK_MS for _ in range(SAMPLES)),
                    )
                    for index in range(BLOCKS)
                ),
            )
            for worker in getattr(made, side)
        )
    return made.model_copy(update=sides)


def artifact(folder: Path, cases: int) -> Path:
    """Write the artifact of a run, zipped as GitHub serves it. Return its folder."""
    record, place, draws = folder / "current.json", folder / "artifact", random.Random(0)
    place.mkdir()
    first = case(0, draws)
    kept = [CaseRun.model_validate_json(case(number, draws).model_dump_json(), strict=True) for number in range(1, cases)]
    plan = examples.PLAN.model_copy(update={"pairs": PAIRS, "blocks": BLOCKS})
    save(record, run_of(first, *kept, plan=plan, head=Tree(commit=HEAD), reference=examples.REFERENCE))
    with zipfile.ZipFile(place / "artifact.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(record, "current.json")
    size = record.stat().st_size
    print(f"{cases} cases: a record of {size / 2**20:.0f} MiB, {size / cases / 1000:.1f} KB a case")
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    options = parser.parse_args()
    with FakeGitHub() as fake, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        new_repository(folder / "clone", {"kernel.cu": "first\n"})
        git(folder / "clone", "remote", "add", "origin", (folder / "clone").as_uri())
        scene = Scene(folder, fake)
        place = artifact(folder, options.cases)
        before = len(fake.requests)
        with TrustedJobs() as jobs:
            done = jobs.run(["ci", "publish", str(place)], scene.environ, folder / "clone")
        print(
            f"exit {done.code} after {done.seconds:.1f} s ({done.cpu_seconds:.1f} s of CPU), {done.megabytes} MB in all,", end=" "
        )
        print(f"{len(fake.requests) - before} requests: {(done.err.strip() or done.out.strip())[:200]}")


if __name__ == "__main__":
    main()
