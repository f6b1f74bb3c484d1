"""Tests of whether a GPU can be trusted with a measurement."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ratchet.core.device.fitness import Condition, inspect, problem_during, problems_before, warnings_before
from ratchet.core.device.gpu import ComputeProcess, Reading
from ratchet.core.records.environment import Telemetry

GIB = 2**30
STRANGER = ComputeProcess(4711, int(12.3 * GIB))


class FakeGpu:
    """A GPU whose utilization is asked again and again."""

    index = 1

    def __init__(self, utilizations: Iterable[float | None]) -> None:
        self._utilizations = iter(utilizations)

    def utilization(self) -> float | None:
        return next(self._utilizations)

    def compute_processes(self) -> list[ComputeProcess]:
        return [STRANGER]

    def reading(self) -> Reading:
        return Reading(at_s=0.0, slowdown=("hardware slowdown",))

    def uncorrected_ecc(self) -> int | None:
        return 3


def telemetry(foreign: int = 0, reasons: tuple[str, ...] = ()) -> Telemetry:
    return Telemetry(
        readings=5,
        sm_clock_mhz_min=1700,
        sm_clock_mhz_median=1750,
        sm_clock_mhz_max=1800,
        temperature_c_max=60,
        power_w_max=500,
        slowdown_reasons=reasons,
        foreign_processes=foreign,
    )


@pytest.mark.parametrize(
    "condition", [Condition(0), Condition(0, utilization=0.0, uncorrected_ecc=0), Condition(0, utilization=0.05)]
)
def test_fit(condition: Condition) -> None:
    """A free GPU, or one that tells nothing, is fit."""
    assert problems_before(condition) == []
    assert warnings_before(condition) == []


@pytest.mark.parametrize("utilization", [0.06, 1.0, None])
def test_computing(utilization: float | None) -> None:
    """Another process on a busy GPU, or on one that does not tell how busy it is, is a problem that names it."""
    condition = Condition(0, (STRANGER,), utilization)
    assert problems_before(condition) == [
        "PID 4711 is computing on GPU 0 (uses 12.3 GiB); wait for it or choose another GPU with --gpu."
    ]
    assert warnings_before(condition) == []


def test_idle() -> None:
    """A process that holds the GPU and computes nothing is a warning."""
    condition = Condition(0, (ComputeProcess(7), STRANGER), 0.0)
    assert problems_before(condition) == []
    assert warnings_before(condition) == [
        "PID 7 is idle on GPU 0; times are valid only while it stays idle.",
        "PID 4711 is idle on GPU 0 (uses 12.3 GiB); times are valid only while it stays idle.",
    ]


def test_busy_without_a_process() -> None:
    """A busy GPU is a problem also where the process is hidden, as from inside a container."""
    (problem,) = problems_before(Condition(2, utilization=0.87))
    assert problem.startswith("GPU 2 is 87 % busy though no process is listed")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Condition(0, slowdown=("hardware power brake",)), "GPU 0 is slowed down now (hardware power brake); let it cool"),
        (
            Condition(3, uncorrected_ecc=2),
            "GPU 3 has had 2 uncorrected memory errors (ECC) since the driver was loaded; reset it",
        ),
    ],
)
def test_unfit(condition: Condition, words: str) -> None:
    """Slowdowns and memory errors are problems, each with what to do."""
    (problem,) = problems_before(condition)
    assert problem.startswith(words)


def test_every_problem_is_told() -> None:
    """Problems do not hide each other."""
    condition = Condition(0, (STRANGER, ComputeProcess(5)), 0.5, ("hardware slowdown",), 1)
    assert len(problems_before(condition)) == 4


def test_inspect() -> None:
    """Looking keeps all processes and the lowest of up to three utilizations, with a pause between."""
    pauses: list[float] = []
    condition = inspect(FakeGpu([0.9, 0.4, 0.02]), pause=pauses.append)
    assert condition == Condition(1, (STRANGER,), 0.02, ("hardware slowdown",), 3)
    assert pauses == [0.5, 0.5]


@pytest.mark.parametrize(
    ("answers", "seen", "pauses"), [([0.0], 0.0, 0), ([None], None, 0), ([0.5, 0.01], 0.01, 1), ([1, None, 1], 1, 2)]
)
def test_inspect_waits_only_for_a_busy_gpu(answers: list[float | None], seen: float | None, pauses: int) -> None:
    """A GPU that is idle, or does not tell, is asked once."""
    waited: list[float] = []
    assert inspect(FakeGpu(answers), pause=waited.append).utilization == seen
    assert len(waited) == pauses


@pytest.mark.parametrize(
    ("told", "dropped", "blocks", "ecc", "words"),
    [
        (None, 0, 0, (None, None), None),
        (telemetry(), 0, 10, (0, 0), None),
        (telemetry(), 5, 10, (3, 3), None),
        (telemetry(), 0, 10, (None, 4), None),
        (telemetry(reasons=("hardware slowdown",)), 6, 10, (0, 0), "6 of 10 blocks were dropped because the GPU was throttled"),
        (telemetry(reasons=("hardware slowdown",)), 6, 10, (0, 0), "the GPU was throttled (hardware slowdown); let it cool"),
        (None, 10, 10, (0, 0), "the GPU was throttled; let it cool"),
        (telemetry(), 0, 10, (1, 3), "The GPU met 2 new uncorrected memory errors (ECC) during this case; reset it"),
        (telemetry(foreign=1), 0, 10, (0, 0), "During this case another process was computing on the GPU; measure again"),
        (telemetry(foreign=2), 0, 10, (0, 0), "During this case 2 other processes were computing on the GPU"),
    ],
)
def test_during(told: Telemetry | None, dropped: int, blocks: int, ecc: tuple[int | None, int | None], words: str | None) -> None:
    """A case is unfit after new memory errors, beside another process, or with more than half of its blocks dropped."""
    problem = problem_during(told, dropped, blocks, *ecc)
    if words is None:
        assert problem is None
    else:
        assert problem is not None
        assert words in problem
